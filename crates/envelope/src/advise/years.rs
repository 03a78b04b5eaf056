//! Growth over years: the data of each year, the smallest choice for it, and the year that outgrows a choice.

use super::{Bound, Catalog, Choice, Constraint, Workload, advise};
use crate::{Bytes, Refusal};
use serde::Serialize;

/// The need at the end of a year, and whether a choice still meets it. The load stays the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Year {
    /// 0 is now.
    pub year: u32,
    pub data: Bytes,
    /// The smallest choice of the same kind of volume for this year; `None` if none carries it.
    pub smallest: Option<Choice>,
    /// The bound that the choice misses; `None` while it carries the year.
    pub outgrown: Option<Constraint>,
}

impl Choice {
    /// Now and each of the years of `workload`.
    pub fn years(&self, workload: &Workload, catalog: &Catalog) -> Result<Vec<Year>, Refusal> {
        let own = Catalog {
            levels: vec![self.level()],
            large: Some(self.volume.settings.large),
            profiles: self.profiles(catalog),
            ..catalog.clone()
        };
        let mut now = workload.now();
        let mut all = Vec::new();
        for year in 0..=workload.years {
            all.push(Year {
                year,
                data: now.capacity,
                smallest: advise(&now, &own)?.options.into_iter().next(),
                outgrown: self.outgrown(&now, catalog)?,
            });
            now = now.after_a_year(workload.growth_percent);
        }
        Ok(all)
    }

    /// The bound that the choice misses most for a later need; `None` if it carries it.
    pub(super) fn outgrown(&self, now: &Workload, catalog: &Catalog) -> Result<Option<Constraint>, Refusal> {
        let missed = |one: &Constraint| !one.used.fits() && one.kind != Bound::Smallest;
        let again = self.reassess(now, catalog)?;
        Ok(again.constraints.into_iter().filter(missed).max_by_key(|one| one.used))
    }

    /// The profiles of the catalog that change this level: others would be refused for it.
    fn profiles(&self, catalog: &Catalog) -> Vec<crate::Profile> {
        let has_level =
            |profile: &&crate::Profile| profile.info().levels.iter().any(|(level, _)| *level == self.level());
        catalog.profiles.iter().filter(has_level).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, Iops, Level, Stream};

    fn grown(percent: u32, years: u32) -> Workload {
        let stream = Stream::from_iops(Access::Random, Bytes(8192), 700, Iops(20_000));
        Workload { streams: vec![stream], growth_percent: percent, years, ..Workload::new(Bytes::tib(10)) }
    }

    #[test]
    fn data_compound_and_the_choice_carries_the_last_year() {
        let (workload, catalog) = (grown(20, 3), Catalog::of([Level::AnfUltra]));
        let choice = &advise(&workload, &catalog).unwrap().options[0];
        assert_eq!(choice.pool.size, Bytes::tib(18));
        let years = choice.years(&workload, &catalog).unwrap();
        assert!(years.iter().all(|year| year.outgrown.is_none()), "{years:?}");
        // The choice for a year alone is outgrown in the next.
        let choice = &advise(&grown(20, 1), &catalog).unwrap().options[0];
        assert_eq!(choice.pool.size, Bytes::tib(12));
        let years = choice.years(&workload, &catalog).unwrap();
        let data: Vec<u64> = years.iter().map(|year| year.data.0 >> 30).collect();
        assert_eq!(data, [10_240, 12_288, 14_745, 17_694]);
        let outgrown: Vec<bool> = years.iter().map(|year| year.outgrown.is_some()).collect();
        assert_eq!(outgrown, [false, false, true, true]);
        assert_eq!(years[2].outgrown.as_ref().unwrap().kind, Bound::Capacity);
        let sizes: Vec<Bytes> = years.iter().map(|year| year.smallest.as_ref().unwrap().pool.size).collect();
        assert_eq!(sizes, [10, 12, 15, 18].map(Bytes::tib));
        let roomy = Workload { capacity_headroom_percent: 20, ..workload };
        let years = choice.years(&roomy, &catalog).unwrap();
        let sizes: Vec<Bytes> = years.iter().map(|year| year.smallest.as_ref().unwrap().pool.size).collect();
        assert_eq!(sizes, [12, 15, 18, 21].map(Bytes::tib), "each year has the headroom");
    }

    #[test]
    fn year_that_nothing_carries_has_no_choice() {
        let (workload, catalog) = (grown(1000, 2), Catalog::of([Level::FilestoreBasicSsd]));
        let choice = &advise(&grown(0, 1), &catalog).unwrap().options[0];
        let years = choice.years(&workload, &catalog).unwrap();
        assert!(years[0].outgrown.is_none() && years[2].outgrown.is_some());
        assert!(years[2].smallest.is_none(), "1,210 TiB");
        for wrong in [0, 21] {
            let refusal = advise(&grown(20, wrong), &catalog).unwrap_err().to_string();
            assert!(refusal.contains("1 to 20"), "{refusal}");
        }
    }
}
