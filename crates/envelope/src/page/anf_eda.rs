//! Microsoft's training page on Azure NetApp Files for electronic design automation.

use super::part::{Page, Part};
use crate::source::PAGE_004;

pub(super) const PAGE: Page = Page {
    name: "anf-eda",
    title: "Azure NetApp Files for electronic design automation",
    source: PAGE_004,
    about: &[
        "EDA has a functional phase, mostly random I/O and metadata, and a physical phase of large sequential reads and writes.",
        "Measured with the EDA load of SPEC's benchmark of storage, and with fio for steady loads.",
    ],
    parts: &[
        Part {
            title: "Regular and large volumes, a choice to be made first",
            stands_for: "",
            setup: &[
                ("Regular", "100 GiB to 100 TiB, from Standard up"),
                ("Large", "50 TiB to 500 TiB, from Standard up"),
            ],
            published: &["anf-regular-volume-type", "anf-large-volume-type"],
            notes: &[],
        },
        Part {
            title: "The EDA benchmark",
            stands_for: "electronic design automation, both phases",
            setup: &[
                (
                    "Regular",
                    "nocto,actimeo=600; tuned kernel settings, whose values are not given; nconnect=16; and all together",
                ),
                ("Large", "10 × D16s_v5, RHEL 9.3 and 8.7"),
                (
                    "Mount",
                    "nocto,actimeo=600,hard,rsize=262144,wsize=262144,vers=3,tcp,noatime,nconnect=8 of the large volume",
                ),
            ],
            published: &["anf-spec-eda-regular", "anf-spec-eda-large"],
            notes: &[
                "With all three on the client, the rate rises while latency stays below 1 ms; the charts have no figures.",
                "NFSv3 does better than NFSv4.1 for such loads, and transfers of 256 KiB far better than others.",
            ],
        },
        Part {
            title: "fio on a regular volume",
            stands_for: "",
            setup: &[
                (
                    "IOPS",
                    "rw=randread and randwrite bs=8k direct=1 ioengine=libaio numjobs=4 iodepth=128 size=4G runtime=600",
                ),
                ("Throughput", "rw=read and write bs=64k, otherwise the same"),
            ],
            published: &[],
            notes: &[
                "With nocto,actimeo=600, nconnect=16 and tuned kernel settings both are higher; the charts have no figures.",
            ],
        },
        Part {
            title: "fio on a large volume",
            stands_for: "",
            setup: &[
                ("Clients", "E32s_v5, 2,000 MiB/s each to send; how many is not given; RHEL 8.4"),
                ("Volume", "101 TiB at Ultra, 10,240 MiB/s"),
                ("Mount", "hard,rsize=65536,wsize=65536,vers=3; 262144 did about as well"),
                ("Working set", "1 TiB"),
            ],
            published: &["anf-large-eda-256k-seq", "anf-large-8k-rand"],
            notes: &[],
        },
    ],
    scenarios: &["eda-blend", "anf-eda-fio"],
};
