//! The interface of everything that makes load.

use report::result::{Machine, Part, TargetFacts};

use crate::error::Error;
use crate::job::Control;
use crate::job::Job;
use crate::machine::machine_facts;

/// Makes load.
pub trait Engine: Send {
    /// What is known of the target.
    ///
    /// # Errors
    /// The target cannot be reached, or is none.
    fn facts(&mut self) -> Result<TargetFacts, Error>;

    /// The machine that makes the load: this one, unless it says otherwise.
    fn machine(&self) -> Machine {
        machine_facts()
    }

    /// Makes the files that the job's own clients need and are not there yet, verifies a sample of those that
    /// are, and connects. `progress` is told the share done.
    ///
    /// # Errors
    /// Whatever makes the job impossible.
    fn prepare(&mut self, job: &Job, progress: &mut dyn FnMut(f64)) -> Result<(), Error>;

    /// Runs what was prepared from `control`'s beginning to the window's end, and until every call is
    /// answered.
    ///
    /// # Errors
    /// Whatever makes a result impossible or worthless. Refused calls are counted instead.
    fn run(&mut self, control: &Control) -> Result<Part, Error>;

    /// Whether the window may be set while the load runs; else it is set before.
    fn takes_window_late(&self) -> bool;

    /// Removes the files.
    ///
    /// # Errors
    /// The server says no.
    fn clear(&mut self) -> Result<(), Error>;
}
