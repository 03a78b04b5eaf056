//! The years of a plan: when its option no longer carries the grown data.

use super::{Catalog, PlanOption, Workload, plan, restricted_to};
use crate::advise::Constraint;
use crate::{Bytes, Refusal};
use serde::Serialize;

/// The need of all workloads at the end of a year, and whether an option still meets it. The loads stay the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlanYear {
    /// 0 is now.
    pub year: u32,
    /// The data of all workloads.
    pub data: Bytes,
    /// The best plan at the same levels for this year; `None` if none carries it.
    pub smallest: Option<PlanOption>,
    /// The workload that misses its bound most, by its place, and the bound; `None` while all are carried.
    pub outgrown: Option<(usize, Constraint)>,
}

impl PlanOption {
    /// Now and each of the years of the workloads.
    pub fn years(
        &self,
        workloads: &[(String, Workload)],
        catalog: &Catalog,
    ) -> Result<Vec<PlanYear>, Refusal> {
        let years = workloads.iter().map(|(_, workload)| workload.years).max().unwrap_or(1);
        let own = restricted_to(catalog, self.levels());
        let mut now: Vec<(String, Workload)> =
            workloads.iter().map(|(name, workload)| (name.clone(), workload.now())).collect();
        let mut all = Vec::new();
        for year in 0..=years {
            let data = now.iter().map(|(_, workload)| workload.capacity.0).fold(0, u64::saturating_add);
            all.push(PlanYear {
                year,
                data: Bytes(data),
                smallest: plan(&now, &own)?.options.into_iter().next(),
                outgrown: self.outgrown(&now, catalog)?,
            });
            for ((_, now), (_, workload)) in now.iter_mut().zip(workloads) {
                *now = now.after_a_year(workload.growth_percent);
            }
        }
        Ok(all)
    }

    fn outgrown(
        &self,
        now: &[(String, Workload)],
        catalog: &Catalog,
    ) -> Result<Option<(usize, Constraint)>, Refusal> {
        let mut missed = Vec::new();
        for volume in self.volumes() {
            let Some((_, workload)) = now.get(volume.workload) else { continue };
            let bound = volume.choice.outgrown(workload, catalog)?;
            missed.extend(bound.map(|bound| (volume.workload, bound)));
        }
        Ok(missed.into_iter().max_by_key(|(_, bound)| bound.used))
    }
}
