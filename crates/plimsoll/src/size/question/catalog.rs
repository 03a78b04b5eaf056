//! The levels, measurements and prices to choose from.

use std::path::Path;

use api_client::model::LevelName;
use envelope::{Catalog, Level};
use report::result::InvalidRun;

use super::super::prices;
use super::flags::ChoiceFlags;
use super::read;
use crate::exit::usage;

impl ChoiceFlags {
    pub(super) fn catalog(&self) -> anyhow::Result<Catalog> {
        let is_left_out = |level: &&LevelName| !self.provider.0.contains(&level.0.info().provider);
        if let Some(level) = self.level.iter().find(is_left_out) {
            return Err(usage(format!(
                "--level {} is not a level of the --provider: leave one of them out",
                level.0.info().name
            )));
        }
        let mut catalog = if self.level.is_empty() {
            Catalog::of_providers(&self.provider.0)
        } else {
            Catalog::of(self.level.iter().map(|level| level.0).collect::<Vec<_>>())
        };
        catalog.large = self.large.then_some(true).or(self.regular.then_some(false));
        catalog.profiles = self.profile.iter().map(|profile| profile.0).collect();
        for measured in &self.measured {
            let (level, file) = match measured.split_once('=') {
                Some((level, file)) => {
                    (level.parse().map_err(|refusal: envelope::Refusal| usage(refusal.to_string()))?, file)
                }
                None => (Level::Custom, measured.as_str()),
            };
            let text = read(Path::new(file))?;
            let run = text.parse().map_err(|wrong: InvalidRun| usage(format!("{file} is {wrong}")))?;
            catalog.measured.push(bench::workload::measured(&run, file, level, self.large)?);
        }
        if let Some(file) = &self.prices {
            catalog.prices = Some(prices::parse(&read(file)?, file)?);
        }
        Ok(catalog)
    }
}
