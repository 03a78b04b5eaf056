//! The built-in scenarios.

use super::Scenario;

const FILES: [&str; 13] = [
    include_str!("gcnv-scale-out.toml"),
    include_str!("gcnv-smb.toml"),
    include_str!("anf-regular.toml"),
    include_str!("anf-nconnect.toml"),
    include_str!("anf-large-scale-out.toml"),
    include_str!("anf-large-scale-up.toml"),
    include_str!("anf-eda-fio.toml"),
    include_str!("eda-blend.toml"),
    include_str!("filestore.toml"),
    include_str!("mount-options.toml"),
    include_str!("client-tuning.toml"),
    include_str!("metadata.toml"),
    include_str!("sizing.toml"),
];

pub fn all() -> Vec<Scenario> {
    // A test below checks that each file is a valid scenario.
    FILES.iter().filter_map(|text| text.parse().ok()).collect()
}

pub fn by_name(name: &str) -> Option<Scenario> {
    all().into_iter().find(|scenario| scenario.name == name)
}

#[cfg(test)]
mod tests {
    use super::super::{Pattern, Series};
    use super::*;
    use envelope::Shape;

    #[test]
    fn every_file_is_scenario_with_unique_name() {
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

    #[test]
    fn published_curves_match_load_of_series() {
        let mut shown = Vec::new();
        for series in all().iter().flat_map(|scenario| &scenario.series) {
            let shapes = series.published.iter().filter_map(|name| name.parse::<Shape>().ok());
            for shape in shapes {
                shown.push(shape.name());
                assert_eq!(series.blocks, [shape.block().0], "{}: {shape}", series.name);
                let is_sequential = shape.pattern() == envelope::Pattern::Sequential;
                assert_eq!(series.pattern == Pattern::Sequential, is_sequential, "{}: {shape}", series.name);
                for (read_thousandths, _) in shape.knots() {
                    let has = |percent: &u8| u32::from(*percent) * 10 == read_thousandths;
                    assert!(series.reads.iter().any(has), "{}: {shape} at {read_thousandths}", series.name);
                }
            }
        }
        Shape::all().for_each(|shape| assert!(shown.contains(&shape.name()), "{shape} is shown nowhere"));
    }

    #[test]
    fn reference_lists_keys_and_its_example_is_valid() {
        const PAGE: &str = include_str!("../../../../../docs/reference/scenario-file.md");
        let example = PAGE.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
        let example: Scenario = example.parse().unwrap();
        let points: Vec<usize> = example.series.iter().map(|series| series.points().len()).collect();
        assert_eq!(points, [10, 1]);
        let defaults = toml::to_string(&Series { job_sets: vec![1], ..Series::default() }).unwrap();
        for key in defaults.lines().filter_map(|line| line.split(" = ").next()) {
            assert!(PAGE.contains(&format!("| `{key}` |")), "{key}");
        }
    }
}
