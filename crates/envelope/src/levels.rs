//! The catalog: every level and tier by name, and the facts about it.

use crate::source::OWN;
use crate::{Level, LevelInfo, Refusal, anf, filestore, gcnv, own};

const ALL: [Level; 20] = [
    Level::AnfStandard,
    Level::AnfPremium,
    Level::AnfUltra,
    Level::AnfFlexible,
    Level::GcnvFlex,
    Level::GcnvFlexCustom,
    Level::GcnvFlexUnified,
    Level::GcnvFlexUnifiedLarge,
    Level::GcnvStandard,
    Level::GcnvPremium,
    Level::GcnvExtreme,
    Level::FilestoreBasicHdd,
    Level::FilestoreBasicSsd,
    Level::FilestoreHighScaleSsd,
    Level::FilestoreHighScaleSsd2021,
    Level::FilestoreZonal,
    Level::FilestoreRegional,
    Level::FilestoreEnterprise,
    Level::Custom,
    Level::Unlimited,
];

impl Level {
    pub fn all() -> &'static [Self] {
        &ALL
    }

    pub fn info(self) -> &'static LevelInfo {
        match self {
            Self::AnfStandard => &anf::STANDARD,
            Self::AnfPremium => &anf::PREMIUM,
            Self::AnfUltra => &anf::ULTRA,
            Self::AnfFlexible => &anf::FLEXIBLE,
            Self::GcnvFlex => &gcnv::FLEX,
            Self::GcnvFlexCustom => &gcnv::FLEX_CUSTOM,
            Self::GcnvFlexUnified => &gcnv::FLEX_UNIFIED,
            Self::GcnvFlexUnifiedLarge => &gcnv::FLEX_UNIFIED_LARGE,
            Self::GcnvStandard => &gcnv::STANDARD,
            Self::GcnvPremium => &gcnv::PREMIUM,
            Self::GcnvExtreme => &gcnv::EXTREME,
            Self::FilestoreBasicHdd => &filestore::BASIC_HDD,
            Self::FilestoreBasicSsd => &filestore::BASIC_SSD,
            Self::FilestoreHighScaleSsd => &filestore::HIGH_SCALE_SSD,
            Self::FilestoreHighScaleSsd2021 => &filestore::HIGH_SCALE_SSD_2021,
            Self::FilestoreZonal => &filestore::ZONAL,
            Self::FilestoreRegional => &filestore::REGIONAL,
            Self::FilestoreEnterprise => &filestore::ENTERPRISE,
            Self::Custom => &own::CUSTOM,
            Self::Unlimited => &own::UNLIMITED,
        }
    }

    pub fn name(self) -> &'static str {
        self.info().name
    }
}

impl std::str::FromStr for Level {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let named = |level: &&Level| level.name() == text || level.info().aliases.contains(&text);
        ALL.iter().find(named).copied().ok_or_else(|| {
            let names: Vec<&str> = ALL.iter().map(|level| level.name()).collect();
            Refusal::new(format!("\"{text}\" is not a service level"), names.join(", "), OWN)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_level_has_unique_name_that_parses() {
        let names: BTreeSet<&str> = ALL.iter().map(|level| level.name()).collect();
        assert_eq!(names.len(), ALL.len());
        for &level in Level::all() {
            assert_eq!(level.to_string().parse(), Ok(level));
            let stored = serde_json::to_string(&level).unwrap();
            assert_eq!(stored, format!("\"{}\"", level.name()));
            assert_eq!(serde_json::from_str::<Level>(&stored).unwrap(), level);
            assert!(!level.info().qos.is_empty() && !level.info().protocols.is_empty(), "{level}");
            assert!(!level.info().sources.is_empty(), "{level}");
        }
    }

    #[test]
    fn old_level_name_parses_and_unknown_name_is_refused() {
        assert_eq!("filestore/standard".parse(), Ok(Level::FilestoreBasicHdd));
        assert_eq!("filestore/premium".parse(), Ok(Level::FilestoreBasicSsd));
        let refusal = "anf/gold".parse::<Level>().unwrap_err().to_string();
        assert!(
            refusal.starts_with("\"anf/gold\" is not a service level; allowed: anf/standard, anf/premium")
        );
        assert!(serde_json::from_str::<Level>("\"gold\"").is_err());
    }

    #[test]
    fn name_rule_matches_its_pattern() {
        let volume = Level::GcnvPremium.info().volume_name.unwrap();
        let longest = "a".repeat(63);
        for name in ["a", "a1", "vol-1", longest.as_str()] {
            assert_eq!(volume.check(name), Ok(()), "{name}");
        }
        let too_long = "a".repeat(64);
        for name in ["", "1a", "a-", "A", "a_b", "-", too_long.as_str()] {
            let refusal = volume.check(name).unwrap_err().to_string();
            assert!(refusal.contains("^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$"), "{refusal}");
        }
        assert!(Level::GcnvFlex.info().share_name.unwrap().check(&"a".repeat(80)).is_ok());
        assert!(Level::GcnvFlex.info().share_name.unwrap().check(&"a".repeat(81)).is_err());
        let basic = Level::FilestoreBasicHdd.info().share_name.unwrap();
        assert!(basic.check("vol_1").is_ok() && basic.check(&"a".repeat(16)).is_ok());
        assert!(basic.check(&"a".repeat(17)).is_err() && basic.check("vol-1").is_err());
        let snapshot = Level::GcnvFlex.info().snapshot_name.unwrap();
        assert!(snapshot.check("Before-upgrade-7").is_ok() && snapshot.check("a.b").is_err());
        let snapshot = Level::FilestoreZonal.info().snapshot_name.unwrap();
        assert!(snapshot.check("before-upgrade-7").is_ok() && snapshot.check("Before").is_err());
        let zonal = Level::FilestoreZonal.info().share_name.unwrap();
        assert!(zonal.check(&"a".repeat(63)).is_ok() && zonal.check(&"a".repeat(64)).is_err());
    }
}
