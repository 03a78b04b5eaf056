//! Rounded figures in the text of a page, besides its tables.

use super::{Direction, Figure, Published};
use crate::{Metric, Shape};

/// Pure reads and pure writes of a curve, as in the text of its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headline {
    pub read: Option<TextFigure>,
    pub write: Option<TextFigure>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextFigure {
    /// The qualifier in the text, as in `about`.
    pub word: &'static str,
    /// In the unit of the table.
    pub value: u64,
    pub exact: u64,
}

const HEADLINES: [(&str, &str, Option<u64>, Option<u64>); 12] = [
    ("gcnv-flex-custom-nfs3-64k-seq", "about", Some(4_300), Some(1_480)),
    ("gcnv-flex-custom-nfs3-8k-rand", "about", Some(126_400), Some(78_600)),
    ("gcnv-extreme-nfs3-64k-seq", "about", Some(5_240), Some(2_180)),
    ("gcnv-extreme-nfs3-256k-seq", "about", Some(4_930), Some(2_440)),
    ("gcnv-extreme-nfs3-4k-rand", "about", Some(380_000), Some(120_000)),
    ("gcnv-extreme-nfs3-8k-rand", "about", Some(270_000), Some(110_000)),
    ("gcnv-extreme-smb-64k-seq", "about", Some(5_130), Some(1_790)),
    ("gcnv-extreme-smb-256k-seq", "about", Some(4_620), Some(1_830)),
    ("gcnv-extreme-smb-4k-rand", "about", Some(390_000), Some(110_000)),
    ("gcnv-extreme-smb-8k-rand", "about", Some(280_000), Some(90_000)),
    ("anf-large-256k-seq", "about", Some(12_761), Some(8_500)),
    ("anf-large-8k-rand", "more than", Some(700_000), None),
];

impl Published {
    pub fn headline(self) -> Option<Headline> {
        let (_, word, read, write) = HEADLINES.iter().find(|(name, ..)| *name == self.name())?;
        let text_figure = |value: Option<u64>, direction| {
            let exact =
                self.figures().into_iter().find(|figure| is_pure(figure, direction))?.hundredths / 100;
            Some(TextFigure { word, value: value?, exact })
        };
        Some(Headline {
            read: text_figure(*read, Direction::Read),
            write: text_figure(*write, Direction::Write),
        })
    }

    pub fn shape(self) -> Option<Shape> {
        self.name().parse().ok()
    }
}

fn is_pure(figure: &Figure, direction: Direction) -> bool {
    let read_thousandths = if direction == Direction::Read { 1000 } else { 0 };
    figure.direction == direction && figure.mix.is_some_and(|mix| mix.read_thousandths == read_thousandths)
}

impl TextFigure {
    /// Whether the text rounds the figure of the table to its last digit that is not 0.
    pub fn is_rounded(self) -> bool {
        let mut unit = 1;
        while self.value > 0 && self.value.is_multiple_of(unit * 10) {
            unit *= 10;
        }
        self.word == "more than" && self.exact > self.value || self.value.abs_diff(self.exact) * 2 <= unit
    }
}

impl Metric {
    pub fn symbol(self) -> &'static str {
        match self {
            Self::MibPerSecond => "MiB/s",
            Self::Iops => "IOPS",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headline_rounds_table_or_is_a_conflict() {
        let mut wrong = Vec::new();
        for (name, ..) in HEADLINES {
            let headline = name.parse::<Published>().unwrap().headline().unwrap();
            for (what, text_figure) in [("read", headline.read), ("write", headline.write)] {
                if let Some(text_figure) = text_figure.filter(|text_figure| !text_figure.is_rounded()) {
                    wrong.push(format!("{name} {what} {} for {}", text_figure.value, text_figure.exact));
                }
            }
        }
        assert_eq!(
            wrong,
            [
                "gcnv-extreme-nfs3-64k-seq write 2180 for 2172",
                "gcnv-extreme-nfs3-8k-rand write 110000 for 104000",
                "gcnv-extreme-smb-64k-seq write 1790 for 1781",
                "gcnv-extreme-smb-8k-rand read 280000 for 271800",
            ]
        );
    }

    #[test]
    fn headline_pairs_text_and_table_figures() {
        let flex = "gcnv-flex-custom-nfs3-64k-seq".parse::<Published>().unwrap().headline().unwrap();
        assert_eq!(flex.read, Some(TextFigure { word: "about", value: 4_300, exact: 4_304 }));
        assert_eq!(flex.write, Some(TextFigure { word: "about", value: 1_480, exact: 1_476 }));
        let many = "anf-large-8k-rand".parse::<Published>().unwrap().headline().unwrap();
        assert_eq!((many.read.unwrap().word, many.write), ("more than", None));
        assert_eq!("gcnv-large-eda".parse::<Published>().unwrap().headline(), None);
    }
}
