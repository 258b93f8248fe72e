mod bodies;
mod published;
mod seams;
mod surface;
mod walk;
