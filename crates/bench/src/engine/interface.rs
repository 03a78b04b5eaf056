//! The interface of everything that makes load.

use report::result::{Machine, Part, TargetFacts};

use crate::error::Error;
use crate::job::Control;
use crate::job::{Job, LayoutProgress};
use crate::machine::machine_facts;

pub trait Engine: Send {
    /// # Errors
    /// The target is invalid or out of reach.
    fn facts(&mut self) -> Result<TargetFacts, Error>;

    /// This machine by default.
    fn machine(&self) -> Machine {
        machine_facts()
    }

    /// Creates the missing files of the job's own clients, verifies a sample of the existing ones, and
    /// connects. `progress` receives the files done, often; its error ends the work early, without partial files.
    ///
    /// # Errors
    /// The job is impossible, or the error of `progress`.
    fn prepare(
        &mut self,
        job: &Job,
        progress: &mut dyn FnMut(LayoutProgress) -> Result<(), Error>,
    ) -> Result<(), Error>;

    /// Runs the prepared job from `control`'s beginning to the window's end, and until every call is answered.
    ///
    /// # Errors
    /// There is no valid result. Refused calls are counted instead.
    fn run(&mut self, control: &Control) -> Result<Part, Error>;

    /// Whether a window may be set while the load runs.
    fn accepts_late_window(&self) -> bool;

    /// Removes the files.
    ///
    /// # Errors
    /// The server refuses.
    fn clear(&mut self) -> Result<(), Error>;
}
