//! The two forms of a part: complete, or just enough to find each kind of fault.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Full,
    /// Every kind of check, but fewer repetitions and combinations.
    Brief,
}

impl Form {
    pub(super) fn choose<T>(self, full: T, brief: T) -> T {
        match self {
            Self::Full => full,
            Self::Brief => brief,
        }
    }

    /// `BRIEF` of scripts is empty for the full form.
    pub(super) fn parameter(self) -> &'static str {
        self.choose("", "1")
    }
}
