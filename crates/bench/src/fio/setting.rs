//! The value of an option as jobs use it.

use super::number::{self, Part, SECOND};
use super::options::{Kind, OptionSpec};

pub(super) struct Setting<'v> {
    pub(super) spec: &'static OptionSpec,
    pub(super) value: Option<&'v str>,
    pub(super) base: u64,
}

impl<'v> Setting<'v> {
    /// Fails without a text.
    pub(super) fn text(&self) -> Result<&'v str, String> {
        let text = self.value.filter(|value| !value.is_empty());
        text.ok_or_else(|| format!("{} needs a value", self.spec.name))
    }

    pub(super) fn switch(&self) -> bool {
        self.value.is_none_or(|value| number::flag(value).is_some_and(|flag| flag != 0))
    }

    pub(super) fn numbers(&self) -> Result<Vec<Option<u64>>, String> {
        self.spec.numbers(self.text()?, self.base)
    }

    pub(super) fn first(&self) -> Result<Option<u64>, String> {
        Ok(self.numbers()?.first().copied().flatten())
    }

    pub(super) fn last(&self) -> Result<Option<u64>, String> {
        Ok(self.numbers()?.into_iter().flatten().next_back())
    }

    pub(super) fn at_least_one(&self) -> Result<Option<u64>, String> {
        match self.first()? {
            Some(0) => Err("at least 1".to_owned()),
            number => Ok(number),
        }
    }

    pub(super) fn percent(&self) -> Result<Option<u8>, String> {
        let percent = self.last()?;
        Ok(percent.and_then(|percent| u8::try_from(percent).ok()))
    }

    pub(super) fn share(&self) -> Result<Option<u64>, String> {
        match number::bytes(self.text()?, self.base) {
            Some(Part::Share(percent)) if percent > 100 => {
                Err(format!("\"{percent}%\" is out of range; fio reads 0 to 100"))
            }
            Some(Part::Share(percent)) => Ok(Some(percent)),
            _ => Ok(None),
        }
    }

    pub(super) fn seconds(&self) -> Result<Option<f64>, String> {
        debug_assert_eq!(self.spec.kind, Kind::Seconds);
        Ok(self.first()?.map(|us| us as f64 / SECOND as f64))
    }
}
