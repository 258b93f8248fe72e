//! Why an object could not be stored or read.
//!
//! The errors of the library quote URLs and answers, so that only labels of them are used.

use std::io;

use crate::net;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// No object has this name.
    #[error("it does not exist")]
    NotFound,
    /// The folder that contains all objects does not exist.
    #[error("the folder does not exist")]
    NoFolder,
    #[error("access is denied")]
    Denied,
    /// The object is larger than the caller accepts.
    #[error("it is larger than {0} bytes")]
    TooLarge(u64),
    /// The bytes that were read back differ from the written ones.
    #[error("the stored bytes differ from the written ones")]
    Different,
    #[error("timed out")]
    Timeout,
    /// No answer of the service.
    #[error("{0}")]
    Net(#[from] net::Error),
    /// The operating system's text, which contains no name of a file.
    #[error("{0}")]
    Io(String),
    /// An error code of the S3 protocol, such as `NoSuchBucket`.
    #[error("the service answered {0}")]
    Service(String),
    #[error("the service gave an unusable answer")]
    Unusable,
}

impl From<object_store::Error> for ObjectError {
    fn from(error: object_store::Error) -> Self {
        let code = service_code(&error);
        match (&error, code) {
            (_, Some(code)) if code != "NoSuchKey" => return Self::Service(code),
            (object_store::Error::NotFound { .. }, _) => return Self::NotFound,
            (
                object_store::Error::PermissionDenied { .. }
                | object_store::Error::Unauthenticated { .. },
                _,
            ) => return Self::Denied,
            _ => {}
        }
        let mut next: Option<&(dyn std::error::Error + 'static)> = Some(&error);
        while let Some(cause) = next {
            if let Some(cause) = cause.downcast_ref::<net::Error>() {
                return Self::Net(cause.clone());
            }
            if let Some(cause) = cause.downcast_ref::<io::Error>() {
                return cause.into();
            }
            next = cause.source();
        }
        Self::Unusable
    }
}

impl From<&io::Error> for ObjectError {
    fn from(cause: &io::Error) -> Self {
        match cause.kind() {
            io::ErrorKind::PermissionDenied => Self::Denied,
            _ => match cause
                .get_ref()
                .and_then(|inner| inner.downcast_ref::<object_store::Error>())
            {
                Some(_) => Self::Unusable,
                None => Self::Io(cause.kind().to_string()),
            },
        }
    }
}

/// The `Code` of an S3 error document that the library quotes: letters only, so that nothing else
/// of the document is repeated.
fn service_code(error: &object_store::Error) -> Option<String> {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(cause) = next {
        let text = cause.to_string();
        let code = text
            .split_once("<Code>")
            .and_then(|(_, rest)| rest.split_once("</Code>"))
            .map(|(code, _)| code);
        if let Some(code) = code.filter(|code| {
            (1..=64).contains(&code.len()) && code.bytes().all(|byte| byte.is_ascii_alphabetic())
        }) {
            return Some(code.to_owned());
        }
        next = cause.source();
    }
    None
}
