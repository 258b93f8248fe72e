//! `[archive]`: where archives of runs are stored.

use std::path::PathBuf;

use secrecy::SecretString;
use serde::Deserialize;
use url::Url;

/// The region of services that have none.
const USUAL_REGION: &str = "us-east-1";

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ArchiveSettings {
    /// `file:///folder` or `s3://bucket/prefix`; nothing is archived without it.
    pub url: Option<String>,
    /// The address of an S3-compatible service; that of Amazon S3 if unset.
    pub endpoint: Option<String>,
    /// The region of the bucket.
    pub region: Option<String>,
    /// The environment variable with the id of the access key.
    pub access_key_id_env: String,
    /// The environment variable with the secret of the access key.
    pub secret_access_key_env: String,
    /// The environment variable with the token of a temporary access key.
    pub session_token_env: Option<String>,
}

impl Default for ArchiveSettings {
    fn default() -> Self {
        Self {
            url: None,
            endpoint: None,
            region: None,
            access_key_id_env: "AWS_ACCESS_KEY_ID".to_owned(),
            secret_access_key_env: "AWS_SECRET_ACCESS_KEY".to_owned(),
            session_token_env: None,
        }
    }
}

/// Where objects are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// An absolute path.
    Folder(PathBuf),
    Bucket(Bucket),
}

/// A bucket of an S3-compatible service, and the prefix of all names in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    pub name: String,
    pub prefix: String,
    /// `None` for Amazon S3.
    pub endpoint: Option<Url>,
    pub region: String,
}

/// The access key of a bucket.
pub struct AccessKey {
    pub id: SecretString,
    pub secret: SecretString,
    pub session_token: Option<SecretString>,
}

impl ArchiveSettings {
    /// The location; `None` if nothing is archived.
    ///
    /// # Errors
    /// The field and its rule.
    pub fn location(&self) -> Result<Option<Location>, String> {
        let Some(text) = self.url.as_deref() else {
            return match self.endpoint.is_some() || self.region.is_some() {
                true => Err("`archive.url` is missing; set it to `s3://bucket/prefix`".to_owned()),
                false => Ok(None),
            };
        };
        let rule = || {
            format!(
                "`archive.url` must be `file:///folder` or `s3://bucket/prefix`, without \
                 credentials and query, got {}",
                shown(text)
            )
        };
        let url: Url = text.parse().map_err(|_| rule())?;
        let is_plain = url.username().is_empty()
            && url.password().is_none()
            && url.port().is_none()
            && url.query().is_none()
            && url.fragment().is_none();
        match (url.scheme(), url.host_str(), is_plain) {
            ("file", None | Some(""), true) => {
                if self.endpoint.is_some() || self.region.is_some() {
                    return Err(
                        "`archive.endpoint` and `archive.region` are for `s3://` only; omit them"
                            .to_owned(),
                    );
                }
                let folder = url.to_file_path().map_err(|()| rule())?;
                Ok(Some(Location::Folder(folder)))
            }
            ("s3", Some(name), true) if !name.is_empty() => Ok(Some(Location::Bucket(Bucket {
                name: name.to_owned(),
                prefix: url.path().trim_matches('/').to_owned(),
                endpoint: self.endpoint_url()?,
                region: self
                    .region
                    .clone()
                    .unwrap_or_else(|| USUAL_REGION.to_owned()),
            }))),
            _ => Err(rule()),
        }
    }

    fn endpoint_url(&self) -> Result<Option<Url>, String> {
        let Some(text) = self.endpoint.as_deref() else {
            return Ok(None);
        };
        let url = text.parse::<Url>().ok().filter(|url| {
            matches!(url.scheme(), "http" | "https")
                && url.has_host()
                && url.username().is_empty()
                && url.password().is_none()
                && url.query().is_none()
                && url.fragment().is_none()
        });
        url.map(Some).ok_or_else(|| {
            format!(
                "`archive.endpoint` must be an http or https address without credentials and \
                 query, got {}",
                shown(text)
            )
        })
    }

    /// Reads the access key from the environment.
    ///
    /// # Errors
    /// The field and the variable that is not set.
    pub fn access_key(
        &self,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<AccessKey, String> {
        let read = |field: &str, variable: &str| {
            let value = environment(variable).filter(|value| !value.is_empty());
            value.map(SecretString::from).ok_or_else(|| {
                format!(
                    "`archive.{field}` names the environment variable {variable}, which is not set"
                )
            })
        };
        let token = self.session_token_env.as_deref();
        Ok(AccessKey {
            id: read("access_key_id_env", &self.access_key_id_env)?,
            secret: read("secret_access_key_env", &self.secret_access_key_env)?,
            session_token: token
                .map(|variable| read("session_token_env", variable))
                .transpose()?,
        })
    }
}

/// A wrong address, unless it may contain a secret.
fn shown(address: &str) -> String {
    match address.contains(['@', '?']) {
        true => "an address with credentials or a query".to_owned(),
        false => format!("`{address}`"),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn at(url: &str) -> ArchiveSettings {
        ArchiveSettings {
            url: Some(url.to_owned()),
            ..ArchiveSettings::default()
        }
    }

    #[rstest]
    #[case("runs")]
    #[case("file:runs")]
    #[case("file://server/share")]
    #[case("s3://")]
    #[case("s3://key:secret@bucket/runs")]
    #[case("s3://bucket/runs?versionId=1")]
    #[case("https://bucket.s3.amazonaws.com/runs")]
    fn another_url_is_refused_with_the_accepted_forms(#[case] url: &str) {
        let found = at(url).location();
        // `file:runs` is an absolute path for the URL standard.
        if url == "file:runs" {
            assert_eq!(found, Ok(Some(Location::Folder("/runs".into()))));
            return;
        }
        let fault = found.unwrap_err();
        assert!(
            fault.contains("s3://bucket/prefix") && !fault.contains("secret"),
            "{fault}"
        );
    }

    #[test]
    fn a_bucket_has_a_prefix_and_an_endpoint() {
        let settings = ArchiveSettings {
            endpoint: Some("http://127.0.0.1:9000".to_owned()),
            ..at("s3://runs/prod/eu/")
        };
        let Ok(Some(Location::Bucket(bucket))) = settings.location() else {
            panic!("not a bucket")
        };
        assert_eq!(
            (bucket.name.as_str(), bucket.prefix.as_str()),
            ("runs", "prod/eu")
        );
        assert_eq!(bucket.region, "us-east-1");
        assert_eq!(bucket.endpoint.unwrap().port(), Some(9000));
    }

    #[rstest]
    #[case::endpoint(|it: &mut ArchiveSettings| it.endpoint = Some("127.0.0.1:9000".to_owned()), "s3://a", "archive.endpoint")]
    #[case::credentials(|it: &mut ArchiveSettings| it.endpoint = Some("http://k:s@127.0.0.1".to_owned()), "s3://a", "archive.endpoint")]
    #[case::region_of_folder(|it: &mut ArchiveSettings| it.region = Some("eu".to_owned()), "file:///a", "archive.region")]
    fn contradictory_settings_name_the_field(
        #[case] change: fn(&mut ArchiveSettings),
        #[case] url: &str,
        #[case] field: &str,
    ) {
        let mut settings = at(url);
        change(&mut settings);
        let fault = settings.location().unwrap_err();
        assert!(fault.contains(field), "{fault}");
    }

    #[test]
    fn a_missing_access_key_names_the_variable() {
        let fault = at("s3://a").access_key(&|_| None).err().unwrap();
        assert!(fault.contains("AWS_ACCESS_KEY_ID"), "{fault}");
    }
}
