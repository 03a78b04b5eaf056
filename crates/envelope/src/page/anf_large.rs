//! Microsoft's benchmarks of large volumes of Azure NetApp Files.

use super::part::{Page, Part};
use crate::source::PAGE_002;

const VOLUME: (&str, &str) = ("Volume", "one large volume of 101 TiB at Ultra, 12,800 MiB/s");
const MOUNT: (&str, &str) =
    ("Mount", "hard,rsize=65536,wsize=65536,vers=3; rsize and wsize of 262144 did about as well");

pub(super) const PAGE: Page = Page {
    name: "anf-large",
    title: "Azure NetApp Files: performance of one large volume",
    source: PAGE_002,
    about: &[
        "A basis for sizing: one large volume from several machines (scale-out) and from one (scale-up), by fio.",
        "The level of a volume can be raised and lowered without an interruption.",
        "Loads heavy in metadata gain from large volumes, which work more in parallel: many creations, unlinks and renames, as of \
         version control and EDA.",
    ],
    parts: &[
        Part {
            title: "Ceilings of the service levels",
            stands_for: "",
            setup: &[],
            published: &["anf-large-limit-ultra", "anf-large-limit-premium", "anf-large-limit-standard"],
            notes: &["The tests used Ultra."],
        },
        Part {
            title: "Scale-out: the largest load that several machines make",
            stands_for: "",
            setup: &[
                ("Clients", "12 × E32s_v5 for the sequential test, 2,000 MiB/s each to send; RHEL 8.4"),
                VOLUME,
                MOUNT,
                ("Working set", "1 TiB"),
            ],
            published: &["anf-large-256k-seq", "anf-large-8k-rand"],
            notes: &[
                "Reads came close to the level's 12,800 MiB/s, under which more may be possible.",
                "Azure limits the send rate of a machine, which bounds its writes.",
            ],
        },
        Part {
            title: "Scale-up: the most that one client reaches",
            stands_for: "",
            setup: &[
                ("Clients", "1 × E104id_v5, 12,500 MiB/s to send, 100 Gbit/s; RHEL 8.4"),
                VOLUME,
                ("Mount", "hard,rsize=65536,wsize=65536,vers=3 with nconnect, and without for comparison"),
            ],
            published: &["anf-large-scaleup-256k-seq", "anf-large-scaleup-8k-rand", "anf-large-scaleup-gain"],
            notes: &[
                "The figures are those with nconnect. Without it there was about a tenth of the reads and a quarter of the \
                 writes at 256 KiB, and a seventh of the operations at 8 KiB.",
                "256 KiB is the largest transfer that is recommended.",
            ],
        },
    ],
    scenarios: &["anf-large-scale-out", "anf-large-scale-up", "metadata"],
};
