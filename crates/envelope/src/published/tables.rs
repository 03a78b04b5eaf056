//! Published figures that are not curves.

use super::{Direction, Figure, Mix, Record, Unit};
use crate::source::{PAGE_000, PAGE_001, PAGE_002, PAGE_004, SPEC};
use crate::{Bytes, Pattern};

const fn figure(direction: Direction, value: u64, unit: Unit) -> Figure {
    Figure { direction, hundredths: value * 100, unit, mix: None, is_exceeded: false }
}

const fn pure(direction: Direction, value: u64, unit: Unit, kib: u64, pattern: Pattern) -> Figure {
    let read_thousandths = if matches!(direction, Direction::Read) { 1000 } else { 0 };
    let mix = Mix { block: Bytes(kib << 10), pattern, read_thousandths };
    Figure { mix: Some(mix), ..figure(direction, value, unit) }
}

/// Operations at 4 KiB and MB/s at 1 MiB, as the footnotes of page 001 say.
const fn tier(read_iops: u64, write_iops: u64, read_mb: u64, write_mb: u64) -> [Figure; 4] {
    use Direction::{Read, Write};
    [
        pure(Read, read_iops, Unit::Iops, 4, Pattern::Random),
        pure(Write, write_iops, Unit::Iops, 4, Pattern::Random),
        pure(Read, read_mb, Unit::MbPerSecond, 1024, Pattern::Sequential),
        pure(Write, write_mb, Unit::MbPerSecond, 1024, Pattern::Sequential),
    ]
}

const fn gain(direction: Direction, tenths: u64, kib: u64, pattern: Pattern) -> Figure {
    Figure { hundredths: tenths * 10, ..pure(direction, 0, Unit::Times, kib, pattern) }
}

const fn rate(iops: u64, mib: u64) -> [Figure; 2] {
    [figure(Direction::Total, iops, Unit::Iops), figure(Direction::Total, mib, Unit::MibPerSecond)]
}

/// Job sets, and the overall response time in hundredths of a millisecond.
const fn sets(sets: u64, hundredths_ms: u64) -> [Figure; 2] {
    let response = Figure { hundredths: hundredths_ms, ..figure(Direction::Total, 0, Unit::Milliseconds) };
    [figure(Direction::Total, sets, Unit::JobSets), response]
}

const fn ceiling(mib: u64) -> [Figure; 1] {
    [figure(Direction::Total, mib, Unit::MibPerSecond)]
}

pub(super) const RECORDS: [Record; 21] = [
    Record {
        id: "gcnv-large-eda",
        title: "GCNV large volume: EDA load over 6 addresses, up to",
        // 21.5 GiB/s.
        figures: &rate(1_350_000, 22_016),
        source: PAGE_000,
    },
    Record {
        id: "filestore-basic-hdd-1-10",
        title: "Filestore Basic HDD, 1 to 10 TB",
        figures: &tier(600, 1_000, 100, 100),
        source: PAGE_001,
    },
    Record {
        id: "filestore-basic-hdd-10-63.9",
        title: "Filestore Basic HDD, 10 to 63.9 TB",
        figures: &tier(1_000, 5_000, 180, 120),
        source: PAGE_001,
    },
    Record {
        id: "filestore-basic-ssd",
        title: "Filestore Basic SSD, 2.5 to 63.9 TB",
        figures: &tier(60_000, 25_000, 1_200, 350),
        source: PAGE_001,
    },
    Record {
        id: "filestore-high-scale-60",
        title: "Filestore High Scale SSD, 60 TB",
        figures: &tier(90_000, 30_000, 3_000, 660),
        source: PAGE_001,
    },
    Record {
        id: "filestore-high-scale-320",
        title: "Filestore High Scale SSD, 320 TB",
        figures: &tier(480_000, 160_000, 16_000, 3_520),
        source: PAGE_001,
    },
    Record {
        id: "filestore-high-scale-per-10tb",
        title: "Filestore High Scale SSD, each 10 TB",
        figures: &tier(15_000, 5_000, 500, 110),
        source: PAGE_001,
    },
    Record {
        id: "filestore-high-scale-per-client",
        title: "Filestore High Scale SSD, each client",
        figures: &tier(15_000, 5_000, 500, 110),
        source: PAGE_001,
    },
    Record {
        id: "anf-large-limit-ultra",
        title: "ANF large volume, ceiling of Ultra",
        figures: &ceiling(12_800),
        source: PAGE_002,
    },
    Record {
        id: "anf-large-limit-premium",
        title: "ANF large volume, ceiling of Premium",
        figures: &ceiling(6_400),
        source: PAGE_002,
    },
    Record {
        id: "anf-large-limit-standard",
        title: "ANF large volume, ceiling of Standard",
        figures: &ceiling(1_600),
        source: PAGE_002,
    },
    Record {
        id: "anf-large-scaleup-gain",
        title: "ANF large volume, one client: with nconnect against without",
        figures: &[
            gain(Direction::Read, 100, 256, Pattern::Sequential),
            gain(Direction::Write, 40, 256, Pattern::Sequential),
            gain(Direction::Read, 70, 8, Pattern::Random),
            gain(Direction::Write, 72, 8, Pattern::Random),
        ],
        source: PAGE_002,
    },
    Record {
        id: "anf-regular-volume-type",
        title: "ANF regular volume, the most that was observed",
        figures: &[
            figure(Direction::Total, 4_500, Unit::MibPerSecond),
            figure(Direction::Read, 200_000, Unit::Iops),
            figure(Direction::Write, 135_000, Unit::Iops),
        ],
        source: PAGE_004,
    },
    Record {
        id: "anf-large-volume-type",
        title: "ANF large volume, the most that was observed",
        figures: &[
            figure(Direction::Total, 10_240, Unit::MibPerSecond),
            figure(Direction::Read, 700_000, Unit::Iops),
            figure(Direction::Write, 474_000, Unit::Iops),
        ],
        source: PAGE_004,
    },
    Record {
        id: "anf-spec-eda-regular",
        title: "ANF regular volume, EDA load: rate at a latency of 2 ms",
        figures: &rate(39_601, 692),
        source: PAGE_004,
    },
    Record {
        id: "anf-spec-eda-large",
        title: "ANF large volume, EDA load: rate at a latency of 2 ms",
        figures: &rate(652_260, 10_030),
        source: PAGE_004,
    },
    Record {
        id: "eda-anf-17280",
        title: "ANF, 6 volumes: EDA job sets and overall response time",
        figures: &sets(17_280, 60),
        source: SPEC,
    },
    Record {
        id: "eda-anf-10560",
        title: "ANF, 6 volumes: EDA job sets and overall response time",
        figures: &sets(10_560, 64),
        source: SPEC,
    },
    Record {
        id: "eda-anf-2880",
        title: "ANF, one volume: EDA job sets and overall response time",
        figures: &sets(2_880, 51),
        source: SPEC,
    },
    Record {
        id: "eda-anf-1760",
        title: "ANF, one volume: EDA job sets and overall response time",
        figures: &sets(1_760, 48),
        source: SPEC,
    },
    Record {
        id: "eda-netapp-a90",
        title: "NetApp A90, 8 nodes: EDA job sets and overall response time",
        figures: &sets(8_100, 117),
        source: SPEC,
    },
];
