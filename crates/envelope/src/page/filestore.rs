//! Google's page of Filestore's performance, as of 2021.

use super::part::{Page, Part};
use crate::published::TIERS;
use crate::source::PAGE_001;

pub(super) const PAGE: Page = Page {
    name: "filestore",
    title: "Filestore as of 2021: expected performance, recommended settings, how to test",
    source: PAGE_001,
    about: &[
        "The average performance to expect of each tier, in TB and MB/s.",
        "An instance may differ from it, because of caches on clients and server, the client's machine, and the load.",
        "Basic stays the same beyond 10 TB; High Scale rises and falls with the capacity.",
        "IOPS were measured with reads and writes of 4 KiB, MB/s with 1 MiB.",
    ],
    parts: &[
        Part {
            title: "Expected performance",
            stands_for: "",
            setup: &[],
            published: TIERS,
            notes: &[
                "High Scale grows linearly in steps of 10 TB, sustained. The rate of 10 TB is also the maximum of one client.",
                "Basic has no limit for a single client.",
            ],
        },
        Part {
            title: "Recommended settings",
            stands_for: "",
            setup: &[
                (
                    "Clients",
                    "n1-standard-8 or larger: such a client reads at about 16 Gbit/s where caches help",
                ),
                (
                    "Mount",
                    "the defaults: hard,timeo=600,retrans=3,rsize=1048576,wsize=1048576,resvport,async",
                ),
            ],
            published: &[],
            notes: &["Mounting with sync makes it considerably slower."],
        },
        Part {
            title: "How to test",
            stands_for: "",
            setup: &[
                (
                    "In common",
                    "ioengine=sync direct=0 fsync_on_close=1 randrepeat=0 nrfiles=1 end_fsync=1 fallocate=none overwrite=0 \
                     loops=10",
                ),
                ("Write MB/s", "rw=write bs=1m size=20G numjobs=1"),
                ("Write IOPS", "rw=randwrite bs=4K size=1G numjobs=80 sync=1"),
                ("Read MB/s", "rw=read bs=1m size=240G numjobs=1 invalidate=1"),
                ("Read IOPS", "rw=randread bs=4K size=1G numjobs=20 sync=1 invalidate=1"),
            ],
            published: &[],
            notes: &["For Basic; it may take several clients. Of High Scale this gives no accurate results."],
        },
    ],
    scenarios: &["filestore"],
};
