//! The published curves. Every figure is that of the page's table, not of its rounded text.

use super::{Knot, Metric, Pattern, Table};
use crate::source::{PAGE_000, PAGE_002, PAGE_003, PAGE_004};
use crate::{Bytes, Protocol};

const KIB_4: Bytes = Bytes(4 << 10);
const KIB_8: Bytes = Bytes(8 << 10);
const KIB_64: Bytes = Bytes(64 << 10);
const KIB_256: Bytes = Bytes(256 << 10);

const fn knot(read_thousandths: u32, read: u64, write: u64) -> Knot {
    Knot { read_thousandths, total: read + write, read: Some(read), is_exceeded: false }
}

const fn sum(read_thousandths: u32, total: u64) -> Knot {
    Knot { read_thousandths, total, read: None, is_exceeded: false }
}

const fn more_than(read_thousandths: u32, total: u64) -> Knot {
    Knot { is_exceeded: true, ..sum(read_thousandths, total) }
}

const fn ends(read: u64, write: u64) -> [Knot; 2] {
    [knot(0, 0, write), knot(1000, read, 0)]
}

/// Every curve: ten tables of five mixes, then curves of which only the ends are published.
pub(super) const TABLES: [Table; 21] = [
    Table {
        id: "gcnv-flex-custom-nfs3-64k-seq",
        title: "GCNV Flex with custom performance (5,120 MiB/s and 160,000 IOPS bought), 10 TiB: NFSv3, 64 KiB sequential, 6 clients",
        protocol: Protocol::NfsV3,
        block: KIB_64,
        pattern: Pattern::Sequential,
        metric: Metric::MibPerSecond,
        knots: &[
            knot(0, 0, 1_476),
            knot(250, 464, 1_390),
            knot(500, 1_345, 1_344),
            knot(750, 2_963, 989),
            knot(1000, 4_304, 0),
        ],
        source: PAGE_000,
    },
    Table {
        id: "gcnv-flex-custom-nfs3-8k-rand",
        title: "GCNV Flex with custom performance (5,120 MiB/s and 160,000 IOPS bought), 10 TiB: NFSv3, 8 KiB random, 6 clients",
        protocol: Protocol::NfsV3,
        block: KIB_8,
        pattern: Pattern::Random,
        metric: Metric::Iops,
        knots: &[
            knot(0, 0, 78_582),
            knot(250, 23_600, 70_751),
            knot(500, 57_223, 57_217),
            knot(750, 101_740, 33_916),
            knot(1000, 126_397, 0),
        ],
        source: PAGE_000,
    },
    Table {
        id: "gcnv-extreme-nfs3-64k-seq",
        title: "GCNV Extreme, 75 TiB: NFSv3, 64 KiB sequential, 6 clients",
        protocol: Protocol::NfsV3,
        block: KIB_64,
        pattern: Pattern::Sequential,
        metric: Metric::MibPerSecond,
        knots: &[
            knot(0, 0, 2_172),
            knot(250, 610, 1_835),
            knot(500, 1_415, 1_416),
            knot(750, 2_284, 764),
            knot(1000, 5_237, 0),
        ],
        source: PAGE_000,
    },
    Table {
        id: "gcnv-extreme-nfs3-256k-seq",
        title: "GCNV Extreme, 75 TiB: NFSv3, 256 KiB sequential, 6 clients",
        protocol: Protocol::NfsV3,
        block: KIB_256,
        pattern: Pattern::Sequential,
        metric: Metric::MibPerSecond,
        knots: &[
            knot(0, 0, 2_440),
            knot(250, 677, 2_036),
            knot(500, 1_638, 1_640),
            knot(750, 2_522, 839),
            knot(1000, 4_928, 0),
        ],
        source: PAGE_000,
    },
    Table {
        id: "gcnv-extreme-nfs3-4k-rand",
        title: "GCNV Extreme, 75 TiB: NFSv3, 4 KiB random, 6 clients",
        protocol: Protocol::NfsV3,
        block: KIB_4,
        pattern: Pattern::Random,
        metric: Metric::Iops,
        knots: &[
            knot(0, 0, 118_000),
            knot(250, 32_000, 96_200),
            knot(500, 79_800, 79_800),
            knot(750, 172_000, 57_300),
            knot(1000, 380_000, 0),
        ],
        source: PAGE_000,
    },
    Table {
        id: "gcnv-extreme-nfs3-8k-rand",
        title: "GCNV Extreme, 75 TiB: NFSv3, 8 KiB random, 6 clients",
        protocol: Protocol::NfsV3,
        block: KIB_8,
        pattern: Pattern::Random,
        metric: Metric::Iops,
        knots: &[
            knot(0, 0, 104_000),
            knot(250, 30_200, 90_500),
            knot(500, 66_900, 66_900),
            knot(750, 132_000, 44_100),
            knot(1000, 265_000, 0),
        ],
        source: PAGE_000,
    },
    Table {
        id: "gcnv-extreme-smb-64k-seq",
        title: "GCNV Extreme, 75 TiB: SMB, 64 KiB sequential, 6 clients",
        protocol: Protocol::Smb,
        block: KIB_64,
        pattern: Pattern::Sequential,
        metric: Metric::MibPerSecond,
        knots: &[
            knot(0, 0, 1_781),
            knot(250, 559, 1_676),
            knot(500, 1_455, 1_454),
            knot(750, 2_675, 892),
            knot(1000, 5_128, 0),
        ],
        source: PAGE_000,
    },
    Table {
        id: "gcnv-extreme-smb-256k-seq",
        title: "GCNV Extreme, 75 TiB: SMB, 256 KiB sequential, 6 clients",
        protocol: Protocol::Smb,
        block: KIB_256,
        pattern: Pattern::Sequential,
        metric: Metric::MibPerSecond,
        knots: &[
            knot(0, 0, 1_826),
            knot(250, 584, 1_744),
            knot(500, 1_533, 1_534),
            knot(750, 2_708, 900),
            knot(1000, 4_617, 0),
        ],
        source: PAGE_000,
    },
    Table {
        id: "gcnv-extreme-smb-4k-rand",
        title: "GCNV Extreme, 75 TiB: SMB, 4 KiB random, 6 clients",
        protocol: Protocol::Smb,
        block: KIB_4,
        pattern: Pattern::Random,
        metric: Metric::Iops,
        knots: &[
            knot(0, 0, 109_300),
            knot(250, 32_822, 98_500),
            knot(500, 84_200, 84_200),
            knot(750, 164_700, 54_848),
            knot(1000, 390_900, 0),
        ],
        source: PAGE_000,
    },
    Table {
        id: "gcnv-extreme-smb-8k-rand",
        title: "GCNV Extreme, 75 TiB: SMB, 8 KiB random, 6 clients",
        protocol: Protocol::Smb,
        block: KIB_8,
        pattern: Pattern::Random,
        metric: Metric::Iops,
        knots: &[
            knot(0, 0, 85_500),
            knot(250, 28_093, 84_400),
            knot(500, 65_700, 65_900),
            knot(750, 135_900, 45_293),
            knot(1000, 271_800, 0),
        ],
        source: PAGE_000,
    },
    Table {
        id: "anf-large-256k-seq",
        title: "ANF large volume, Ultra, 101 TiB: 256 KiB sequential, 12 clients",
        protocol: Protocol::NfsV3,
        block: KIB_256,
        pattern: Pattern::Sequential,
        metric: Metric::MibPerSecond,
        knots: &ends(12_761, 8_518),
        source: PAGE_002,
    },
    Table {
        id: "anf-large-8k-rand",
        title: "ANF large volume, Ultra, 101 TiB: 8 KiB random",
        protocol: Protocol::NfsV3,
        block: KIB_8,
        pattern: Pattern::Random,
        metric: Metric::Iops,
        // Page 004 has the same two figures.
        knots: &ends(709_000, 474_000),
        source: PAGE_002,
    },
    Table {
        id: "anf-large-scaleup-256k-seq",
        title: "ANF large volume, Ultra, 101 TiB: 256 KiB sequential, one client with nconnect",
        protocol: Protocol::NfsV3,
        block: KIB_256,
        pattern: Pattern::Sequential,
        metric: Metric::MibPerSecond,
        knots: &ends(10_000, 6_600),
        source: PAGE_002,
    },
    Table {
        id: "anf-large-scaleup-8k-rand",
        title: "ANF large volume, Ultra, 101 TiB: 8 KiB random, one client with nconnect",
        protocol: Protocol::NfsV3,
        block: KIB_8,
        pattern: Pattern::Random,
        metric: Metric::Iops,
        knots: &ends(426_000, 405_000),
        source: PAGE_002,
    },
    Table {
        id: "anf-large-eda-256k-seq",
        title: "ANF large volume, Ultra, 101 TiB: 256 KiB sequential, under the older ceiling of 10,240 MiB/s",
        protocol: Protocol::NfsV3,
        block: KIB_256,
        pattern: Pattern::Sequential,
        metric: Metric::MibPerSecond,
        // Conflict large-seq-read: page 004 is the older one.
        knots: &ends(9_970, 8_518),
        source: PAGE_004,
    },
    Table {
        id: "anf-regular-4k-rand-cached",
        title: "ANF regular volume, Ultra: 4 KiB random, cached, 6 clients",
        protocol: Protocol::NfsV3,
        block: KIB_4,
        pattern: Pattern::Random,
        metric: Metric::Iops,
        knots: &ends(460_000, 130_000),
        source: PAGE_003,
    },
    Table {
        id: "anf-regular-4k-rand-uncached",
        title: "ANF regular volume, Ultra: 4 KiB random, uncached, 6 clients",
        protocol: Protocol::NfsV3,
        block: KIB_4,
        pattern: Pattern::Random,
        metric: Metric::Iops,
        knots: &ends(388_000, 120_000),
        source: PAGE_003,
    },
    Table {
        id: "anf-regular-8k-rand-uncached",
        title: "ANF regular volume, Ultra: 8 KiB random, uncached, 6 clients",
        protocol: Protocol::NfsV3,
        block: KIB_8,
        pattern: Pattern::Random,
        metric: Metric::Iops,
        knots: &ends(293_000, 111_000),
        source: PAGE_003,
    },
    Table {
        id: "anf-regular-64k-seq-cached",
        title: "ANF regular volume, Ultra: 64 KiB sequential, cached, 6 clients",
        protocol: Protocol::NfsV3,
        block: KIB_64,
        pattern: Pattern::Sequential,
        metric: Metric::MibPerSecond,
        knots: &ends(4_500, 1_600),
        source: PAGE_003,
    },
    Table {
        id: "anf-regular-64k-seq-uncached",
        title: "ANF regular volume, Ultra: 64 KiB sequential, uncached, 6 clients",
        protocol: Protocol::NfsV3,
        block: KIB_64,
        pattern: Pattern::Sequential,
        metric: Metric::MibPerSecond,
        // The page has no figure in the middle, but says that the total equals that of pure reads.
        knots: &[knot(0, 0, 2_400), sum(500, 3_600), knot(1000, 3_600, 0)],
        source: PAGE_003,
    },
    Table {
        id: "anf-regular-256k-seq-uncached",
        title: "ANF regular volume, Ultra: 256 KiB sequential, uncached, 6 clients",
        protocol: Protocol::NfsV3,
        block: KIB_256,
        pattern: Pattern::Sequential,
        metric: Metric::MibPerSecond,
        // The page says that the total is highest in the middle, but gives no figure.
        knots: &[knot(0, 0, 2_500), more_than(500, 3_500), knot(1000, 3_500, 0)],
        source: PAGE_003,
    },
];
