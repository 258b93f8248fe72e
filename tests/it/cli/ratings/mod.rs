mod badge;
pub mod rating;
mod score;
