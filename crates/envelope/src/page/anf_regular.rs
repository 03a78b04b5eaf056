//! Microsoft's benchmarks of regular volumes of Azure NetApp Files.

use super::part::{Page, Part};
use crate::source::PAGE_003;

const CLIENTS: (&str, &str) = ("Clients", "6 × D32s_v5, RHEL 9.3");
const MOUNT: (&str, &str) = ("Mount", "rw,nconnect=8,hard,rsize=262144,wsize=262144,vers=3,tcp,bg");
const LOAD: (&str, &str) = ("Load", "fio on 1 TiB, with randrepeat=0 (called uncached) and without (cached)");
const FARMS: &str = "media rendering, AI/ML and other loads of large compute farms";

pub(super) const PAGE: Page = Page {
    name: "anf-regular",
    title: "Azure NetApp Files: performance of one regular volume",
    source: PAGE_003,
    about: &[
        "Scale-out tests add client after client to reach the volume's limit; scale-up tests show what one client reaches with \
         more jobs over more connections.",
        "Where the test is called cached, an unknown part came from caches and figures are somewhat higher; the uncached ones are \
         closer to what the storage does.",
        "Without nconnect one client does not reach the limit of a volume.",
        "Only the ends of the mixes have figures in the text; the mixes between them are in charts, and so are all figures of nconnect.",
    ],
    parts: &[
        Part {
            title: "High IOPS, scale-out",
            stands_for: FARMS,
            setup: &[CLIENTS, ("Volume", "one of 100 TiB at Ultra, manual QoS"), MOUNT, LOAD],
            published: &[
                "anf-regular-4k-rand-cached",
                "anf-regular-4k-rand-uncached",
                "anf-regular-8k-rand-uncached",
            ],
            notes: &[
                "Operations fall as the share of writes rises.",
                "Uncached, 4 KiB writes fell by about 8 % and reads by about 17 %.",
                "Larger operations are fewer; 8 KiB is nearer to what applications use today, many of EDA among them.",
            ],
        },
        Part {
            title: "High throughput, scale-out",
            stands_for: "media repositories, high-performance computing, AI/ML: mostly sequential, 64 to 256 KiB, little metadata",
            setup: &[CLIENTS, ("Volume", "one at Ultra; its size is not given"), MOUNT, LOAD],
            published: &[
                "anf-regular-64k-seq-cached",
                "anf-regular-64k-seq-uncached",
                "anf-regular-256k-seq-uncached",
            ],
            notes: &[
                "Caching helps reads more than writes: with many writes the uncached total is the higher one.",
                "Larger operations take longer.",
            ],
        },
        Part {
            title: "nconnect, scale-up",
            stands_for: "a single user of media rendering, databases, AI/ML and ordinary file shares",
            setup: &[
                ("Clients", "1 × D32s_v4, RHEL 9.3"),
                ("Volume", "one of 1 TiB at Ultra"),
                MOUNT,
                (
                    "Load",
                    "fio on 1 TiB, randrepeat=0, 4 KiB random and 64 KiB, over growing depths; with nconnect and without",
                ),
            ],
            published: &[],
            notes: &[
                "One TCP connection gives fewer operations a second; with nconnect latency is lower as a rule.",
            ],
        },
    ],
    scenarios: &["anf-regular", "anf-nconnect"],
};
