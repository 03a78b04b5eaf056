//! Levels and connections of the published measurements.

use super::{Direction, Figure, Published, Unit};
use crate::Level;

const LEVELS: [(&str, &[Level]); 9] = [
    ("gcnv-extreme-", &[Level::GcnvExtreme]),
    ("gcnv-flex-custom-", &[Level::GcnvFlexCustom]),
    ("gcnv-large-", &[Level::GcnvPremium, Level::GcnvExtreme]),
    ("anf-large-limit-premium", &[Level::AnfPremium]),
    ("anf-large-limit-standard", &[Level::AnfStandard]),
    ("anf-", &[Level::AnfUltra]),
    ("filestore-basic-hdd", &[Level::FilestoreBasicHdd]),
    ("filestore-basic-ssd", &[Level::FilestoreBasicSsd]),
    ("filestore-high-scale-", &[Level::FilestoreHighScaleSsd2021]),
];

const SEVERAL_CONNECTIONS: [&str; 2] = ["anf-large-scaleup-256k-seq", "anf-large-scaleup-8k-rand"];

impl Published {
    /// Empty if the page does not say.
    pub fn levels(self) -> &'static [Level] {
        let levels = LEVELS.iter().find(|(begin, _)| self.name().starts_with(begin));
        levels.map_or(&[], |(_, levels)| levels)
    }

    /// Whether the page measured several connections of a client without giving their number.
    pub fn is_over_several_connections(self) -> bool {
        SEVERAL_CONNECTIONS.contains(&self.name())
    }

    pub fn caveat(self) -> Option<&'static str> {
        let of_instances = "An instance of Filestore may differ from these figures by caching on clients and server, by the machine \
             type of the clients and by the workload.";
        let is_of_instances = self.name().starts_with("filestore-");
        self.source().estimate().or(is_of_instances.then_some(of_instances))
    }
}

impl Figure {
    /// Divides by `gain`, the multiple with nconnect.
    pub fn without_nconnect(self, gain: Self) -> Option<Self> {
        let fits = gain.unit == Unit::Times && gain.mix == self.mix && gain.hundredths > 0;
        let is_of_it = gain.direction == self.direction || self.direction == Direction::Total;
        (fits && is_of_it).then(|| Self { hundredths: self.hundredths * 100 / gain.hundredths, ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn published(name: &str) -> Published {
        name.parse().unwrap()
    }

    #[test]
    fn figure_without_nconnect_follows_from_gain() {
        let gains = published("anf-large-scaleup-gain").figures();
        let implied = |name: &str| {
            let one = published(name);
            assert!(one.is_over_several_connections());
            let of = |figure: Figure| gains.iter().find_map(|gain| figure.without_nconnect(*gain));
            one.figures().into_iter().filter_map(of).map(|figure| figure.hundredths / 100).collect::<Vec<_>>()
        };
        // Writes first, then reads, then everything.
        assert_eq!(implied("anf-large-scaleup-256k-seq"), [1650, 1650, 1000, 1000]);
        assert_eq!(implied("anf-large-scaleup-8k-rand"), [56_250, 56_250, 60_857, 60_857]);
        assert!(!published("anf-large-256k-seq").is_over_several_connections());
    }

    #[test]
    fn every_provider_record_has_levels_and_caveat() {
        for one in Published::all() {
            let of_provider =
                ["gcnv-", "anf-", "filestore-"].iter().any(|begin| one.name().starts_with(begin));
            assert_eq!(!one.levels().is_empty(), of_provider, "{}", one.name());
            let has_caveat = ["gcnv-", "filestore-"].iter().any(|begin| one.name().starts_with(begin));
            assert_eq!(one.caveat().is_some(), has_caveat, "{}", one.name());
        }
        assert_eq!(published("gcnv-extreme-smb-8k-rand").levels(), [Level::GcnvExtreme]);
        assert_eq!(published("anf-large-limit-premium").levels(), [Level::AnfPremium]);
    }
}
