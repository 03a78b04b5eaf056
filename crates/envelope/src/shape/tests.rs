//! The published figures, and the accuracy of the interpolation.

use super::*;
use crate::{Level, Pool, Volume};

fn shape(name: &str) -> Shape {
    name.parse().unwrap()
}

fn tables() -> Vec<Shape> {
    let tables: Vec<Shape> = Shape::all().filter(|shape| shape.0.knots.len() == 5).collect();
    assert_eq!(tables.len(), 10);
    tables
}

fn band(errors: &[(u64, u64)]) -> ErrorBand {
    let each = |&(error_band, published): &(u64, u64)| {
        let off = u128::from(error_band.abs_diff(published)) * 1_000_000 / u128::from(published);
        u32::try_from(off).unwrap()
    };
    let each: Vec<u32> = errors.iter().map(each).collect();
    let mean = each.iter().sum::<u32>() / u32::try_from(each.len()).unwrap();
    let worst = *each.iter().max().unwrap();
    ErrorBand { mean_thousandths: (mean + 500) / 1000, worst_thousandths: (worst + 500) / 1000 }
}

/// Predicts each table's mixes at `places` from the knots that `keep` selects. Returns pairs of predicted and
/// published figures.
fn predicted(places: std::ops::Range<usize>, keep: fn(usize, usize) -> bool) -> Vec<(u64, u64)> {
    let one = |table: &Table, place: usize| {
        let remaining = (0..table.knots.len()).filter(|&at| keep(place, at)).map(|at| table.knots[at]);
        let reduced = Table { knots: remaining.collect::<Vec<Knot>>().leak(), ..*table };
        let knot = &table.knots[place];
        (reduced.interpolate(knot.read_thousandths).unwrap(), table.rate(knot))
    };
    tables().into_iter().flat_map(|shape| places.clone().map(move |place| one(shape.0, place))).collect()
}

#[test]
fn published_mix_returns_published_figure() {
    for (name, reads, total) in [
        ("gcnv-flex-custom-nfs3-64k-seq", 1000, 4_304),
        ("gcnv-flex-custom-nfs3-64k-seq", 750, 2_963 + 989),
        ("gcnv-extreme-nfs3-64k-seq", 1000, 5_237),
        ("gcnv-extreme-nfs3-64k-seq", 0, 2_172),
        ("gcnv-extreme-nfs3-256k-seq", 250, 677 + 2_036),
        ("gcnv-extreme-smb-64k-seq", 500, 1_455 + 1_454),
        ("gcnv-extreme-smb-256k-seq", 750, 2_708 + 900),
        ("anf-large-256k-seq", 1000, 12_761),
        ("anf-large-eda-256k-seq", 1000, 9_970),
        ("anf-regular-64k-seq-uncached", 500, 3_600),
    ] {
        assert_eq!(shape(name).at(reads).unwrap().bandwidth, BytesPerSecond::mib(total), "{name}");
    }
    for (name, reads, total) in [
        ("gcnv-flex-custom-nfs3-8k-rand", 500, 57_223 + 57_217),
        ("gcnv-extreme-nfs3-4k-rand", 750, 172_000 + 57_300),
        ("gcnv-extreme-nfs3-8k-rand", 1000, 265_000),
        ("gcnv-extreme-nfs3-8k-rand", 500, 133_800),
        ("gcnv-extreme-smb-4k-rand", 250, 32_822 + 98_500),
        ("gcnv-extreme-smb-8k-rand", 0, 85_500),
        ("anf-large-8k-rand", 0, 474_000),
        ("anf-regular-8k-rand-uncached", 1000, 293_000),
    ] {
        let point = shape(name).at(reads).unwrap();
        assert_eq!(point.iops, Iops(total), "{name}");
        assert_eq!(point.bandwidth.0, total * shape(name).block().0, "{name}");
    }
}

#[test]
fn knots_sum_over_all_tables() {
    let sum = |metric| -> u64 {
        let of_metric = tables().into_iter().filter(|shape| shape.metric() == metric);
        of_metric.flat_map(|shape| shape.0.knots).map(|knot| knot.total).sum()
    };
    assert_eq!((sum(Metric::MibPerSecond), sum(Metric::Iops)), (77_794, 4_166_182));
}

#[test]
fn time_is_interpolated_between_mixes() {
    let extreme = shape("gcnv-extreme-nfs3-8k-rand");
    // 1/T in the middle of 265,000 and 176,100 IOPS.
    assert_eq!(extreme.at(875).unwrap().iops, Iops(211_591));
    for shape in Shape::all() {
        for pair in shape.0.knots.windows(2) {
            let (low, high) = (pair[0].total.min(pair[1].total), pair[0].total.max(pair[1].total));
            let unit = if shape.metric() == Metric::Iops { 1 } else { 1 << 20 };
            for reads in pair[0].read_thousandths..=pair[1].read_thousandths {
                let rate = shape.0.interpolate(reads).unwrap();
                assert!((low * unit..=high * unit).contains(&rate), "{shape} at {reads}");
            }
        }
    }
}

#[test]
fn operation_time_is_interpolated_between_block_sizes() {
    let (small, large) = (shape("gcnv-extreme-nfs3-4k-rand"), shape("gcnv-extreme-nfs3-8k-rand"));
    let at = |kib: u64, reads| small.between(large, Bytes(kib << 10), reads);
    assert_eq!(at(4, 1000), small.at(1000));
    assert_eq!(at(8, 500), large.at(500));
    // 1/T in the middle of 380,000 and 265,000 IOPS.
    assert_eq!(
        at(6, 1000).unwrap(),
        Point { bandwidth: BytesPerSecond(312_248 * 6144), iops: Iops(312_248) }
    );
    assert_eq!(large.between(small, Bytes(6144), 1000), at(6, 1000), "either way round");
    for kib in [3, 9] {
        let refusal = at(kib, 1000).unwrap_err().to_string();
        assert!(
            refusal.contains(&format!("of {kib} KiB; allowed: 4 KiB to 8 KiB [GCNV benchmarks")),
            "{refusal}"
        );
    }
    assert!(at(6, 1001).is_err());
    for other in [
        "gcnv-extreme-nfs3-4k-rand",
        "gcnv-extreme-smb-8k-rand",
        "gcnv-extreme-nfs3-64k-seq",
        "anf-large-8k-rand",
    ] {
        let refusal = small.between(shape(other), Bytes(6144), 1000).unwrap_err().to_string();
        assert!(refusal.contains("differ in the block size alone"), "{refusal}");
    }
}

#[test]
fn every_curve_covers_pure_writes_to_pure_reads() {
    for shape in Shape::all() {
        let mixes: Vec<u32> = shape.knots().map(|(reads, _)| reads).collect();
        assert!(mixes.is_sorted_by(|a, b| a < b), "{shape}");
        assert_eq!((mixes[0], mixes[mixes.len() - 1]), (0, 1000), "{shape}");
        assert_eq!(shape.to_string().parse(), Ok(shape));
    }
}

#[test]
fn mix_outside_curve_is_refused() {
    let refusal = shape("gcnv-extreme-nfs3-8k-rand").at(1001).unwrap_err().to_string();
    assert!(refusal.contains("1001 thousandths of reads; allowed: 0 to 1000"), "{refusal}");
    assert!(refusal.contains("[GCNV benchmarks"), "{refusal}");
    let narrow = Table {
        knots: &shape("gcnv-extreme-nfs3-8k-rand").0.knots[1..4],
        ..*shape("gcnv-extreme-nfs3-8k-rand").0
    };
    assert_eq!((narrow.interpolate(249), narrow.interpolate(751)), (None, None));
    assert!(narrow.interpolate(250).is_some() && narrow.interpolate(750).is_some());
}

#[test]
fn interpolation_from_ends_errs_by_9_percent() {
    let errors = predicted(1..4, |_, at| at == 0 || at == 4);
    assert_eq!(errors.len(), 30);
    let error_band = band(&errors);
    assert_eq!(error_band, BAND_OF_ENDS);
    assert_eq!(shape("anf-large-8k-rand").error_band(), error_band);
}

#[test]
fn left_out_mix_is_predicted_within_5_5_percent() {
    let errors = predicted(1..4, |place, at| at != place);
    assert_eq!(errors.len(), 30);
    let error_band = band(&errors);
    assert_eq!(error_band, BAND_OF_KNOTS);
    assert_eq!(shape("gcnv-extreme-nfs3-8k-rand").error_band(), error_band);
    // The worst are where pure reads begin to be mixed with writes: elsewhere it stays below 9.6 %.
    let without_the_knee = predicted(1..3, |place, at| at != place);
    assert!(band(&without_the_knee).worst_thousandths <= 96);
}

#[test]
fn shape_scales_as_a_whole() {
    let curve = shape("gcnv-extreme-nfs3-8k-rand");
    let quarter = Shaping { shape: curve, scale_thousandths: 250 };
    assert_eq!(quarter.ceiling(1000), Point { bandwidth: BytesPerSecond(66_250 * 8192), iops: Iops(66_250) });
    assert_eq!(Shaping::new(curve).ceiling(500), curve.at(500).unwrap());
    assert_eq!(Shaping::new(curve).ceiling(5000), curve.at(1000).unwrap(), "a limiter needs no error");
    assert_eq!(quarter.to_string(), "gcnv-extreme-nfs3-8k-rand × 0.25");
    let sequential = Shaping { shape: shape("gcnv-extreme-nfs3-64k-seq"), scale_thousandths: 10 };
    let point = sequential.ceiling(1000);
    assert_eq!((point.bandwidth.0, point.iops.0), (5_237 * (1 << 20) / 100, 837));
}

#[test]
fn volume_can_be_shaped_at_any_level() {
    let mut volume = Volume::new(Bytes::tib(75));
    let shaping = Shaping::new(shape("gcnv-extreme-nfs3-8k-rand"));
    volume.settings.shape = Some(shaping);
    for level in [Level::GcnvExtreme, Level::Unlimited] {
        let limits = Pool::new(level, Bytes::tib(100)).volume_limits(&volume).unwrap();
        assert_eq!(limits.shape, Some(shaping));
        let line = limits.origin.last().unwrap();
        assert_eq!(line.formula, "gcnv-extreme-nfs3-8k-rand, as published");
    }
    volume.settings.shape = Some(Shaping { scale_thousandths: 0, ..shaping });
    let refusal = Pool::new(Level::Unlimited, Bytes::tib(100)).volume_limits(&volume).unwrap_err();
    assert!(refusal.to_string().contains("scaled by 0; allowed: 0.001 or more"), "{refusal}");
}

#[test]
fn shaping_is_stored_by_name() {
    let stored = r#"{"shape":"gcnv-extreme-smb-4k-rand","scale_thousandths":500}"#;
    let read: Shaping = serde_json::from_str(stored).unwrap();
    assert_eq!((read.shape.name(), read.scale_thousandths), ("gcnv-extreme-smb-4k-rand", 500));
    assert_eq!(serde_json::to_string(&read).unwrap(), stored);
    assert!(serde_json::from_str::<Shaping>(r#"{"shape":"gcnv-extreme"}"#).is_err());
    let refusal = "gcnv-extreme".parse::<Shape>().unwrap_err().to_string();
    assert!(refusal.contains("gcnv-flex-custom-nfs3-64k-seq, "), "{refusal}");
}
