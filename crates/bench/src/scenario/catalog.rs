//! The scenarios that come with the program.

use super::Scenario;

/// Each as it would be written by hand.
const FILES: [&str; 1] = [include_str!("catalog/gcnv-scale-out.toml")];

/// All of them, in the order of the list.
pub fn all() -> Vec<Scenario> {
    // That each file is a scenario is tested below.
    FILES.iter().filter_map(|text| text.parse().ok()).collect()
}

/// The scenario of this name.
pub fn by_name(name: &str) -> Option<Scenario> {
    all().into_iter().find(|scenario| scenario.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_a_scenario_with_a_name_of_its_own() {
        for text in FILES {
            let scenario: Scenario = text.parse().unwrap();
            assert_eq!(
                FILES
                    .iter()
                    .filter(|other| other.contains(&format!("\nname = \"{}\"\n", scenario.name)))
                    .count(),
                1
            );
            assert!(!scenario.title.is_empty() && !scenario.about.is_empty());
        }
    }
}
