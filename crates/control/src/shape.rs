//! A published curve as the meters take it.

use envelope::Shaping;
use std::sync::Arc;
use vfs::qos::{MIX_STEPS, Mix};

pub(crate) fn mix(shaping: Shaping) -> Arc<Mix> {
    const PICOSECONDS: u64 = 1_000_000_000_000;
    let mut picoseconds_per_byte = [0; MIX_STEPS];
    for (read_thousandths, time) in (0..).step_by(10).zip(&mut picoseconds_per_byte) {
        let rate = shaping.ceiling(read_thousandths).bandwidth.0.max(1);
        *time = ((PICOSECONDS + rate / 2) / rate).max(1);
    }
    let op_bytes_min = u32::try_from(shaping.shape.block().0).unwrap_or(u32::MAX);
    Arc::new(Mix { picoseconds_per_byte, op_bytes_min })
}

#[cfg(test)]
mod tests {
    use super::*;
    use envelope::Shape;

    #[test]
    fn the_samples_are_the_published_figures_at_the_ends() {
        for shape in Shape::all() {
            let mix = mix(Shaping::new(shape));
            for (percent, thousandths) in [(0, 0), (100, 1000)] {
                let rate = shape.at(thousandths).unwrap().bandwidth.0;
                let sampled = 1_000_000_000_000 / mix.picoseconds_per_byte[percent];
                assert!(rate.abs_diff(sampled) * 50 < rate, "{shape:?}: {rate} B/s, sampled {sampled}");
            }
            assert_eq!(u64::from(mix.op_bytes_min), shape.block().0);
        }
    }

    #[test]
    fn a_quarter_takes_four_times_as_long() {
        let shape = Shape::all().next().unwrap();
        let whole = mix(Shaping::new(shape));
        let quarter = mix(Shaping { shape, scale_thousandths: 250 });
        for (whole, quarter) in whole.picoseconds_per_byte.iter().zip(quarter.picoseconds_per_byte) {
            assert!(quarter.abs_diff(whole * 4) <= 4, "{whole} {quarter}");
        }
    }
}
