//! Running one attempt in a column.

use super::Failure;
use super::column::By;
use super::location::Location;
use super::naive::Naive;
use super::outside::Outside;
use crate::report::Told;

/// What became of an attempt, as far as the place tells.
pub(super) enum Ended {
    /// The hostile program told.
    Told(Told),
    /// The place is no longer what it was.
    Broken(String),
}

/// A column that is ready for attempts.
pub(super) enum Place {
    Naive(Naive),
    Location(Box<Location>),
}

impl Place {
    /// Starts what runs the hostile program in this column.
    pub(super) async fn open(by: By, outside: &Outside) -> Result<Self, Failure> {
        match by {
            By::Nothing | By::NaiveBwrap | By::NaiveDocker => {
                Ok(Self::Naive(Naive::start(by, outside)?))
            }
            By::Location(name, policy) => {
                let location = Location::open(name, policy, "", outside).await?;
                Ok(Self::Location(Box::new(location)))
            }
        }
    }

    /// Has one attempt made.
    pub(super) async fn attempt(&mut self, id: &str) -> Ended {
        match self {
            Self::Naive(naive) => naive.attempt(id),
            Self::Location(location) => location.attempt(id).await,
        }
    }

    /// Whether it still does what it is for.
    pub(super) async fn answers(&self) -> bool {
        match self {
            // It is seen by the next attempt, which ends as broken.
            Self::Naive(_) => true,
            Self::Location(location) => location.answers().await,
        }
    }

    /// Ends it, and everything that it started.
    pub(super) async fn close(self) {
        match self {
            Self::Naive(naive) => drop(naive),
            Self::Location(location) => location.host.kill().await,
        }
    }
}
