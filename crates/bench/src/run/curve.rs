//! The load curve of job sets. The measurement determines its points.

use report::curve::CurvePoint;
use report::result::{Caveat, CaveatKind, Cell, Probe, Summary};
use report::scenario::limits::JOB_SETS_MAX;
use report::scenario::{Point, Series};

use super::progression::WindowKind;
use super::{Runner, search};
use crate::eda::mix;
use crate::eda::search::{Search, Step};
use crate::error::Error;
use crate::job::Job;

impl Runner<'_> {
    /// Each arm has its own points.
    pub(super) fn curves(&mut self, index: usize, series: &Series) -> Result<(), Error> {
        series.points().iter().try_for_each(|point| {
            (0..self.arms.len()).try_for_each(|arm| self.curve(arm, index, series, point))
        })
    }

    fn curve(&mut self, arm: usize, index: usize, series: &Series, point: &Point) -> Result<(), Error> {
        let job = self.job(series, point, 0);
        let mut search = Search::new(self.room(arm, &job), u32::try_from(point.clients).unwrap_or(1));
        let mut probes = Vec::new();
        let mut measured = 0;
        self.progression.search_begins();
        loop {
            match search.next() {
                Step::Probe(job_sets) => {
                    let point = Point { job_sets: Some(job_sets), ..point.clone() };
                    let probed = self.measure_window(arm, series, &point, 0, WindowKind::Probe)?;
                    search
                        .probed(job_sets, CurvePoint::of(job_sets, std::slice::from_ref(&probed)).is_valid());
                    let depth = usize::try_from(job_sets).unwrap_or(0);
                    probes.push(search::probe(depth, &probed));
                }
                Step::Measure(job_sets) => {
                    self.progression.search_ends();
                    measured += 1;
                    let point = Point { job_sets: Some(job_sets), ..point.clone() };
                    let cell = self.curve_point(arm, index, series, point, std::mem::take(&mut probes))?;
                    search.measured(CurvePoint::of(job_sets, &cell.measurements));
                    self.runs[arm].cells.push(cell);
                }
                Step::Done => break,
            }
        }
        self.progression.curve_ends(measured);
        if let Some(why) = search.shortfall() {
            let label = series.label(point);
            self.runs[arm].caveats.push(Caveat::new(CaveatKind::Short, format!("{label}: {why}")));
        }
        Ok(())
    }

    fn curve_point(
        &mut self,
        arm: usize,
        index: usize,
        series: &Series,
        point: Point,
        search: Vec<Probe>,
    ) -> Result<Cell, Error> {
        let measured = self.measure_window(arm, series, &point, 0, WindowKind::CurvePoint)?;
        self.announce(arm, series, &point, &measured);
        let measurements = vec![measured];
        let summary = Summary::of(&measurements);
        let caveats = measurements[0].caveats.clone();
        Ok(Cell { series: index, point, search, measurements, summary, caveats })
    }

    fn room(&self, arm: usize, job: &Job) -> u32 {
        let free = self.runs[arm].target.free_bytes.unwrap_or(u64::MAX) / 2;
        let each = mix::bytes_per_set(job.file_scale_thousandths).max(1);
        u32::try_from(free / each).unwrap_or(u32::MAX).clamp(1, JOB_SETS_MAX)
    }
}
