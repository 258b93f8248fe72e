//! Reservations against a budget.
