//! Checks scenarios. Errors say what is wrong and what is allowed.

use std::fmt::Display;
use std::ops::RangeInclusive;

use super::limits::{
    BLOCK_MAX, BLOCK_UNIT, CLIENTS_MAX, CONNECTIONS_MAX, CONNECTIONS_TOTAL_MAX, DEPTH_MAX, DIRECTORIES_MAX,
    EDA_UNIT, FILES_MAX, JOB_SETS_MAX, RATES, SPACE_MAX,
};
use super::{Cache, Depth, Pattern, Scenario, Search, Series, Targets, Work};
use crate::units::show_size;

impl Scenario {
    /// Checks whether the scenario can be run.
    ///
    /// # Errors The problem, its series, and the allowed values.
    pub fn check(&self) -> Result<(), String> {
        let is_name = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
        if self.name.is_empty() || !self.name.chars().all(is_name) {
            return Err(format!("the name is \"{}\"; allowed are a to z, 0 to 9 and -", self.name));
        }
        if self.title.trim().is_empty() {
            return Err("the title is empty; one line is needed".to_owned());
        }
        if self.series.is_empty() {
            return Err("there is no series; at least one [[series]] is needed".to_owned());
        }
        for (place, series) in self.series.iter().enumerate() {
            if series.name.trim().is_empty() {
                return Err(format!("the series in place {} has no name", place + 1));
            }
            if self.series[..place].iter().any(|other| other.name == series.name) {
                return Err(format!("two series are named \"{}\"", series.name));
            }
            series.check().map_err(|error| format!("series \"{}\": {error}", series.name))?;
        }
        for (place, pair) in self.pairs.iter().enumerate() {
            if pair.name.trim().is_empty() {
                return Err(format!("the pair in place {} has no name", place + 1));
            }
            pair.check(self).map_err(|error| format!("pair \"{}\": {error}", pair.name))?;
        }
        Ok(())
    }
}

impl Series {
    fn check(&self) -> Result<(), String> {
        self.check_lists()?;
        self.check_sizes()?;
        self.check_work()?;
        self.check_rate()?;
        self.check_targets()?;
        self.check_combinations()?;
        match self.published.iter().find(|name| !is_published(name)) {
            Some(name) => {
                Err(format!("nothing published is called \"{name}\"; see docs/reference/scenario-file.md"))
            }
            None => Ok(()),
        }
    }

    fn check_lists(&self) -> Result<(), String> {
        let whole = |bytes: &u64| (1..=BLOCK_MAX).contains(bytes) && bytes.is_multiple_of(BLOCK_UNIT);
        let size = |bytes: &u64| show_size(*bytes);
        let allowed = format!("multiples of 512 B up to {}", show_size(BLOCK_MAX));
        check_not_empty("blocks", &self.blocks)?;
        check_values("blocks", &self.blocks, whole, size, &allowed)?;
        check_values("transfers", &self.transfers, whole, size, &allowed)?;
        check_not_empty("reads", &self.reads)?;
        check_values(
            "reads",
            &self.reads,
            |percent| *percent <= 100,
            ToString::to_string,
            "0 to 100, in percent",
        )?;
        check_not_empty("clients", &self.clients)?;
        check_range("clients", &self.clients, &(1..=CLIENTS_MAX))?;
        check_not_empty("connections", &self.connections)?;
        check_range("connections", &self.connections, &(1..=CONNECTIONS_MAX))?;
        if let Depth::Fixed(depths) = &self.depths {
            check_not_empty("depths", depths)?;
            check_range("depths", depths, &(1..=DEPTH_MAX))?;
        }
        for (key, flags) in [("attribute_caches", &self.attribute_caches), ("same_places", &self.same_places)]
        {
            check_values(key, flags, |_| true, ToString::to_string, "true and false")?;
        }
        check_values("operations", &self.operations, |_| true, |one| format!("{one:?}").to_lowercase(), "")?;
        check_range("directories", &self.directories, &(1..=DIRECTORIES_MAX))?;
        check_values("protocols", &self.protocols, |_| true, ToString::to_string, "")?;
        check_range("job_sets", &self.job_sets, &(1..=JOB_SETS_MAX))
    }

    fn check_sizes(&self) -> Result<(), String> {
        let eda = self.work == Work::EdaBlend;
        if let Some(odd) = self.transfers.iter().find(|bytes| eda && !bytes.is_multiple_of(EDA_UNIT)) {
            let (odd, unit) = (show_size(*odd), show_size(EDA_UNIT));
            return Err(format!("transfers has {odd}; of eda-blend allowed are multiples of {unit}"));
        }
        for (block, transfer) in
            self.blocks.iter().flat_map(|block| self.transfers.iter().map(move |of| (block, of)))
        {
            if !eda && transfer < block && !block.is_multiple_of(*transfer) {
                let (block, transfer) = (show_size(*block), show_size(*transfer));
                return Err(format!("transfers has {transfer}, which does not divide the block of {block}"));
            }
        }
        // Each job has a file.
        let jobs = self.jobs.saturating_mul(maximum(&self.clients));
        if self.jobs == 0 || jobs > FILES_MAX {
            return Err(format!(
                "jobs is {}; allowed are 1 to {FILES_MAX} of all clients together",
                self.jobs
            ));
        }
        let min = jobs as u64 * maximum(&self.blocks);
        if !(min..=SPACE_MAX).contains(&self.working_set) {
            return Err(format!(
                "working_set is {}; allowed is {}, a block for each job, to {}",
                show_size(self.working_set),
                show_size(min),
                show_size(SPACE_MAX)
            ));
        }
        Ok(())
    }

    /// Refuses settings without effect on this work.
    fn check_work(&self) -> Result<(), String> {
        use Work::{EdaBlend, Metadata, OpenRead, Transfers};
        let keys: [(&str, bool, &[Work]); 9] = [
            ("blocks", self.blocks != Self::default().blocks, &[Transfers, OpenRead, EdaBlend]),
            ("attribute_caches", !self.attribute_caches.is_empty(), &[OpenRead, EdaBlend]),
            ("transfers", !self.transfers.is_empty(), &[Transfers, EdaBlend]),
            ("same_places", !self.same_places.is_empty(), &[Transfers]),
            ("rate", self.rate.is_some(), &[Transfers]),
            ("reads", self.reads != [100], &[Transfers]),
            ("job_sets", !self.job_sets.is_empty(), &[EdaBlend]),
            ("operations", !self.operations.is_empty(), &[Metadata]),
            ("directories", !self.directories.is_empty(), &[Metadata]),
        ];
        if let Some((key, ..)) = keys.iter().find(|(_, given, works)| *given && !works.contains(&self.work)) {
            let work = self.work.name();
            return Err(format!("{key} has no effect on the work \"{work}\"; leave it out"));
        }
        if !self.job_sets.is_sorted() {
            return Err(
                "job_sets must be ascending: the first step that is not reached ends the curve".to_owned()
            );
        }
        if self.work == Metadata && self.operations.is_empty() {
            return Err("operations is empty; allowed are \"stat\", \"create\" and \"rename\"".to_owned());
        }
        let is_free = self.cache == Cache::Any && self.pattern != Pattern::Sequential;
        if !self.same_places.is_empty() && !is_free {
            return Err(
                "same_places is for pattern = \"random\" or \"shuffled\" with cache = \"any\"; else \
                these say which places come again"
                    .to_owned(),
            );
        }
        Ok(())
    }

    fn check_rate(&self) -> Result<(), String> {
        let Some(rate) = self.rate else { return Ok(()) };
        if !RATES.contains(&rate) {
            let (min, max) = (RATES.start(), RATES.end());
            return Err(format!("rate is {rate}; allowed are {min} to {max} operations a second"));
        }
        match self.depths {
            Depth::Fixed(_) => Ok(()),
            Depth::Search(Search::Search) => {
                Err("rate gives the operations a second, so there is no peak for depths = \
                \"search\" to find; write how many may be in flight at most, like depths = [16]"
                    .to_owned())
            }
        }
    }

    fn check_targets(&self) -> Result<(), String> {
        let Some(targets) = &self.targets else { return Ok(()) };
        let Targets { iops, throughput, latency_ms, latency_p99_ms } = targets;
        let all = [
            ("iops", *iops),
            ("throughput", throughput.map(|bytes| bytes as f64)),
            ("latency_ms", *latency_ms),
            ("latency_p99_ms", *latency_p99_ms),
        ];
        if all.iter().all(|(_, value)| value.is_none()) {
            return Err(
                "targets is empty; allowed are iops, throughput, latency_ms and latency_p99_ms".to_owned()
            );
        }
        let is_wrong = |value: f64| !value.is_finite() || value <= 0.0;
        match all.into_iter().find(|(_, value)| value.is_some_and(is_wrong)) {
            Some((key, value)) => {
                Err(format!("targets.{key} is {}; allowed are numbers above 0", value.unwrap_or_default()))
            }
            None => Ok(()),
        }
    }

    fn check_combinations(&self) -> Result<(), String> {
        let (clients, connections) = (maximum(&self.clients), maximum(&self.connections));
        if clients * connections > CONNECTIONS_TOTAL_MAX {
            return Err(format!(
                "{clients} clients with {connections} connections; allowed are {CONNECTIONS_TOTAL_MAX} connections of all \
                 together"
            ));
        }
        let depths: &[usize] = match &self.depths {
            Depth::Fixed(depths) => depths,
            // The search has allowed bounds.
            Depth::Search(Search::Search) => return Ok(()),
        };
        let parts =
            |transfer: &u64| usize::try_from(maximum(&self.blocks).div_ceil(*transfer)).unwrap_or(usize::MAX);
        let parts = self.transfers.iter().map(parts).max().unwrap_or(1);
        let fewest = self.connections.iter().min().copied().unwrap_or(1);
        for depth in depths {
            let calls = self.jobs.saturating_mul(*depth);
            if calls < connections {
                return Err(format!(
                    "{} jobs with depth {depth} leave some of {connections} connections without a call; allowed are jobs × \
                     depth from {connections}",
                    self.jobs
                ));
            }
            let on_connection = calls.div_ceil(fewest).saturating_mul(parts);
            if on_connection > DEPTH_MAX {
                return Err(format!(
                    "{} jobs with depth {depth} put {on_connection} calls on a connection; allowed are {DEPTH_MAX}",
                    self.jobs
                ));
            }
        }
        Ok(())
    }
}

fn maximum<T: Copy + Ord + Default>(values: &[T]) -> T {
    values.iter().max().copied().unwrap_or_default()
}

fn is_published(name: &str) -> bool {
    name.parse::<envelope::Published>().is_ok()
}

fn check_not_empty<T>(key: &str, values: &[T]) -> Result<(), String> {
    if values.is_empty() { Err(format!("{key} is empty; at least one value is needed")) } else { Ok(()) }
}

fn check_range<T: PartialOrd + Display>(
    key: &str,
    values: &[T],
    allowed: &RangeInclusive<T>,
) -> Result<(), String> {
    let range = format!("{} to {}", allowed.start(), allowed.end());
    check_values(key, values, |value| allowed.contains(value), ToString::to_string, &range)
}

/// Checks that every value is allowed and unique: a repeated value would repeat its point.
fn check_values<T: PartialEq>(
    key: &str,
    values: &[T],
    is_allowed: impl Fn(&T) -> bool,
    show: impl Fn(&T) -> String,
    allowed: &str,
) -> Result<(), String> {
    for (place, value) in values.iter().enumerate() {
        if !is_allowed(value) {
            return Err(format!("{key} has {}; allowed are {allowed}", show(value)));
        }
        if values[..place].contains(value) {
            return Err(format!("{key} has {} twice", show(value)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::MetadataOperation;
    use super::*;

    fn scenario(change: impl FnOnce(&mut Series)) -> Scenario {
        let mut series = Series { name: "s".to_owned(), ..Series::default() };
        change(&mut series);
        let (name, title) = ("mine".to_owned(), "Mine".to_owned());
        Scenario { name, title, about: String::new(), page: None, series: vec![series], pairs: Vec::new() }
    }

    fn refusal(change: impl FnOnce(&mut Series)) -> String {
        scenario(change).check().err().unwrap_or_else(|| "accepted".to_owned())
    }

    #[test]
    fn list_with_invalid_value_is_refused() {
        assert_eq!(scenario(|_| ()).check(), Ok(()));
        let blocks = "series \"s\": blocks has 1000 B; allowed are multiples of 512 B up to 1 MiB";
        assert_eq!(refusal(|series| series.blocks = vec![8192, 1000]), blocks);
        let transfers = refusal(|series| series.transfers = vec![2 << 20]);
        assert_eq!(
            transfers,
            "series \"s\": transfers has 2 MiB; allowed are multiples of 512 B up to 1 MiB"
        );
        for (message, expected) in [
            (refusal(|series| series.blocks = vec![0]), "blocks has 0 B"),
            (refusal(|series| series.blocks.clear()), "blocks is empty; at least one value"),
            (
                refusal(|series| series.reads = vec![50, 101]),
                "reads has 101; allowed are 0 to 100, in percent",
            ),
            (refusal(|series| series.reads.clear()), "reads is empty"),
            (refusal(|series| series.reads = vec![75, 50, 75]), "reads has 75 twice"),
            (refusal(|series| series.clients = vec![1025]), "clients has 1025; allowed are 1 to 1024"),
            (refusal(|series| series.clients.clear()), "clients is empty"),
            (refusal(|series| series.connections = vec![0]), "connections has 0; allowed are 1 to 4096"),
            (refusal(|series| series.connections.clear()), "connections is empty"),
            (refusal(|series| series.depths = Depth::Fixed(vec![])), "depths is empty"),
            (
                refusal(|series| series.depths = Depth::Fixed(vec![2000])),
                "depths has 2000; allowed are 1 to 1024",
            ),
        ] {
            assert!(message.starts_with("series \"s\": ") && message.contains(expected), "{message}");
        }
    }

    #[test]
    fn invalid_combination_is_refused() {
        let fixed = |depth| Depth::Fixed(vec![depth]);
        for (message, expected) in [
            (refusal(|series| series.jobs = 0), "jobs is 0; allowed are 1 to 100000"),
            (refusal(|series| (series.jobs, series.clients) = (1000, vec![1, 101])), "jobs is 1000"),
            (
                refusal(|series| series.working_set = 8 << 12),
                "working_set is 32 KiB; allowed is 64 KiB, a block for each job",
            ),
            (refusal(|series| series.working_set = 2 << 50), "to 1024 TiB"),
            (
                refusal(|series| (series.clients, series.connections) = (vec![1024], vec![1, 17])),
                "1024 clients with 17 connections; allowed are 16384",
            ),
            (
                refusal(|series| (series.connections, series.depths) = (vec![1, 16], fixed(1))),
                "8 jobs with depth 1 leave some of 16 connections without a call; allowed are jobs × depth from 16",
            ),
            (
                refusal(|series| series.depths = fixed(129)),
                "8 jobs with depth 129 put 1032 calls on a connection",
            ),
            (
                refusal(|series| (series.blocks, series.transfers) = (vec![512 * 3], vec![1024])),
                "transfers has 1 KiB, which does not divide the block of 1536 B",
            ),
            (
                refusal(|series| {
                    (series.blocks, series.transfers) = (vec![1 << 20], vec![64 << 10]);
                    series.depths = fixed(9);
                }),
                "put 1152 calls",
            ),
        ] {
            assert!(message.contains(expected), "{message}");
        }
        let fits = scenario(|series| (series.jobs, series.depths) = (8, Depth::Fixed(vec![1, 128])));
        assert_eq!(fits.check(), Ok(()));
    }

    #[test]
    fn setting_without_effect_is_refused() {
        for (message, expected) in [
            (
                refusal(|series| series.attribute_caches = vec![true]),
                "attribute_caches has no effect on the work \"transfers\"",
            ),
            (refusal(|series| series.job_sets = vec![1]), "job_sets has no effect"),
            (
                refusal(|series| (series.work, series.reads) = (Work::OpenRead, vec![50])),
                "reads has no effect",
            ),
            (
                refusal(|series| (series.work, series.transfers) = (Work::OpenRead, vec![4096])),
                "transfers has no effect",
            ),
            (
                refusal(|series| (series.work, series.transfers) = (Work::EdaBlend, vec![512])),
                "transfers has 512 B; of eda-blend allowed are multiples of 4 KiB",
            ),
            (refusal(|series| series.operations = vec![MetadataOperation::Stat]), "operations has no effect"),
            (refusal(|series| series.directories = vec![2]), "directories has no effect"),
            (refusal(|series| series.work = Work::Metadata), "operations is empty; allowed are \"stat\""),
            (
                refusal(|series| (series.same_places, series.cache) = (vec![true], Cache::Cold)),
                "same_places is for pattern",
            ),
            (
                refusal(|series| {
                    (series.work, series.operations) = (Work::Metadata, vec![MetadataOperation::Rename]);
                    series.directories = vec![0];
                }),
                "directories has 0; allowed are 1 to 10000",
            ),
            (refusal(|series| (series.work, series.job_sets) = (Work::EdaBlend, vec![0])), "job_sets has 0"),
            (
                refusal(|series| (series.work, series.job_sets) = (Work::EdaBlend, vec![2, 1])),
                "must be ascending",
            ),
            (
                refusal(|series| series.published = vec!["gcnv".to_owned()]),
                "nothing published is called \"gcnv\"",
            ),
        ] {
            assert!(message.contains(expected), "{message}");
        }
        let eda = scenario(|series| (series.work, series.job_sets) = (Work::EdaBlend, vec![1, 2]));
        assert_eq!(eda.check(), Ok(()));
    }

    #[test]
    fn rate_must_be_in_range_with_fixed_depths() {
        let at = |rate| {
            move |series: &mut Series| {
                (series.rate, series.depths) = (Some(rate), Depth::Fixed(vec![4]));
            }
        };
        assert_eq!(scenario(at(1000.0)).check(), Ok(()));
        for rate in [0.0, -5.0, f64::NAN, f64::INFINITY] {
            let expected =
                format!("series \"s\": rate is {rate}; allowed are 0.1 to 1000000000 operations a second");
            assert_eq!(refusal(at(rate)), expected);
        }
        let searched = refusal(|series| series.rate = Some(1000.0));
        assert!(searched.contains("no peak for depths = \"search\" to find; write how many"), "{searched}");
        for (work, name) in [(Work::OpenRead, "open-read"), (Work::EdaBlend, "eda-blend")] {
            let message = refusal(|series| (series.work, series.rate) = (work, Some(1.0)));
            assert!(message.contains(&format!("rate has no effect on the work \"{name}\"")), "{message}");
        }
        let text = |rate: &str| {
            let head = "name = \"x\"\ntitle = \"X\"\n[[series]]\nname = \"s\"\ndepths = [4]\n";
            format!("{head}rate = {rate}\n").parse::<Scenario>()
        };
        for rate in ["1000", "1000.0"] {
            assert_eq!(text(rate).unwrap().series[0].rate, Some(1000.0));
        }
        assert!(text("nan").unwrap_err().contains("rate is NaN"));
        assert!(text("\"fast\"").unwrap_err().contains("rate"));
    }

    #[test]
    fn series_names_must_be_present_and_unique() {
        let error = |change: fn(&mut Scenario)| {
            let mut scenario = scenario(|_| ());
            change(&mut scenario);
            scenario.check().unwrap_err()
        };
        assert!(error(|scenario| scenario.name = "Mine".to_owned()).contains("\"Mine\"; allowed are a to z"));
        assert!(error(|scenario| scenario.name.clear()).contains("the name is \"\""));
        assert!(error(|scenario| scenario.title.clear()).contains("title is empty"));
        assert!(error(|scenario| scenario.series.clear()).contains("[[series]]"));
        assert!(
            error(|scenario| scenario.series.push(scenario.series[0].clone()))
                .contains("two series are named \"s\"")
        );
        assert!(
            error(|scenario| scenario.series[0].name.clear()).contains("the series in place 1 has no name")
        );
        let error =
            "name = \"x\"\ntitle = \"X\"\n[[series]]\nname = \"s\"\nreads = [101]\n".parse::<Scenario>();
        assert_eq!(error.unwrap_err(), "series \"s\": reads has 101; allowed are 0 to 100, in percent");
    }
}
