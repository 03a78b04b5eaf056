//! Bodies and queries as values.

mod error;
mod exact;
mod read;

pub use error::Error;

use exact::Exact;
use read::Input;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// A `T` from its text.
pub fn read<T: DeserializeOwned>(text: &[u8]) -> Result<T, Error> {
    let Exact(value) = serde_json::from_slice(text).map_err(|error| Error::syntax(text, &error))?;
    from_value(value)
}

/// A `T` from a value.
pub fn from_value<T: DeserializeOwned>(value: Value) -> Result<T, Error> {
    T::deserialize(Input::json(value))
}

/// A `T` from the parameters of a query.
pub fn from_query<T: DeserializeOwned>(pairs: Vec<(String, String)>) -> Result<T, Error> {
    let mut parameters = Map::new();
    for (name, value) in pairs {
        if parameters.insert(name.clone(), Value::String(value)).is_some() {
            return Err(Error::twice(&name));
        }
    }
    T::deserialize(Input::query(Value::Object(parameters)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn integers_are_exact_and_names_unique() {
        let text = br#"{"a": [1, 2.0, 3e2, -4, 0.5, null, true, "x"], "b": 9223372036854775807}"#;
        let value: Value = read(text).unwrap();
        assert_eq!(
            value,
            json!({"a": [1, 2, 300, -4, 0.5, null, true, "x"], "b": 9_223_372_036_854_775_807_u64})
        );
        for bad in [
            r#"{"a": 1, "a": 1}"#,
            r#"{"b": {"a": 1, "a": 1}}"#,
            "9223372036854775808",
            "1e300",
            "18446744073709551616",
            "{} {}",
            "",
        ] {
            assert!(read::<u64>(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn password_of_a_wrong_type_is_not_repeated() {
        let body = br#"{"name": "u", "uid": 5000, "password": 1234567890}"#;
        let said = read::<crate::model::NewUser>(body).unwrap_err().to_string();
        assert!(said.contains("/password has a wrong type") && !said.contains("1234567890"), "{said}");
    }

    #[test]
    fn array_is_no_object_at_any_depth() {
        #[derive(Debug, Default, PartialEq, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        struct Outer {
            inner: Option<Inner>,
            list: Vec<Inner>,
        }
        #[derive(Debug, Default, PartialEq, serde::Deserialize)]
        #[serde(default)]
        struct Inner {
            size: u8,
        }
        let good = r#"{"inner": {"size": 1}, "list": [{}, {"size": 2}]}"#;
        let list = vec![Inner::default(), Inner { size: 2 }];
        assert_eq!(read::<Outer>(good.as_bytes()).unwrap(), Outer { inner: Some(Inner { size: 1 }), list });
        assert_eq!(read::<Outer>(br#"{"inner": null}"#).unwrap(), Outer::default());
        for bad in ["[]", "[{}]", r#"{"inner": []}"#, r#"{"inner": [1]}"#, r#"{"list": [[1]]}"#] {
            let error = read::<Outer>(bad.as_bytes()).unwrap_err().to_string();
            assert!(error.contains("is an array; allowed: an object"), "{bad}: {error}");
        }
        assert!(read::<Outer>(br#"{"outer": {}}"#).is_err(), "an unknown name");
    }

    fn message<T: DeserializeOwned>(text: &str) -> String {
        read::<T>(text.as_bytes()).err().unwrap_or_else(|| panic!("{text} was read")).to_string()
    }

    #[test]
    fn faults_of_a_body_name_place_and_allowed_values() {
        use crate::model::{NewPool, NewVolume, UserPatch, VolumePatch};
        let pool =
            |rest: &str| message::<NewPool>(&format!(r#"{{"name": "p", "level": "anf/premium", {rest}}}"#));
        assert_eq!(
            pool(r#""size_bytes": "4TiB""#),
            r#"/size_bytes is "4TiB"; allowed: a whole number of 0 or more"#
        );
        assert_eq!(pool(r#""size_bytes": 0"#), "/size_bytes is 0; allowed: a whole number of 1 or more");
        assert_eq!(
            pool(r#""size_bytes": 9223372036854775808"#),
            "/size_bytes is 9223372036854775808; allowed: at most 9223372036854775807"
        );
        assert_eq!(
            pool(r#""size_byte": 1"#),
            "/size_byte is unknown; allowed: name, level, size_bytes, settings, labels"
        );
        assert_eq!(pool(r#""labels": {"a/b": 1}"#), "/labels/a~1b is 1; allowed: a string");
        assert_eq!(
            pool(r#""settings": {"qos": "fast"}"#),
            r#"/settings/qos is "fast"; allowed: auto, manual"#
        );
        assert_eq!(pool(r#""settings": []"#), "/settings is an array; allowed: an object");
        assert_eq!(pool(r#""labels": {}"#), "/size_bytes is missing");
        let rules = r#"{"name": "v", "pool": "p", "size_bytes": 1, "rules": [{"clients": ["a"]}, {"client": ["b"]}]}"#;
        assert!(
            message::<NewVolume>(rules).starts_with("/rules/1/client is unknown; allowed: clients, access")
        );
        let patch = message::<VolumePatch>(r#"{"settings": {"throughput_bytes_per_second": "64M"}}"#);
        assert_eq!(
            patch,
            r#"/settings/throughput_bytes_per_second is "64M"; allowed: a whole number of 0 or more"#
        );
        let unknown = message::<VolumePatch>(r#"{"settings": {"larger": true}}"#);
        assert!(
            unknown.starts_with("/settings/larger is unknown; allowed: throughput_bytes_per_second"),
            "{unknown}"
        );
        assert_eq!(
            message::<VolumePatch>(r#"{"protocols": ["smb", "smb"]}"#),
            "/protocols has smb twice; allowed: each protocol once"
        );
        assert_eq!(
            message::<UserPatch>(r#"{"gid": 3000000000}"#),
            "/gid is 3000000000; allowed: at most 2000000000"
        );
    }

    #[test]
    fn faults_of_the_text_name_line_and_column() {
        for (text, expected) in [
            ("", "the body is empty"),
            ("[]", "the body is an array; allowed: an object"),
            ("null", "the body is null; allowed: an object"),
            (r#"{"limit": 1,"#, "the body ends too early, at line 1, column 12"),
            (r#"{"limit" 1}"#, r#"the body is not valid JSON at line 1, column 10: expected ":""#),
            (
                r#"{"limit": 1, "limit": 2}"#,
                r#"the body is not valid JSON at line 1, column 24: the property "limit" occurs twice"#,
            ),
        ] {
            assert_eq!(message::<crate::model::PageQuery>(text), expected, "{text}");
        }
    }

    #[test]
    fn faults_of_a_query_name_the_parameter() {
        use crate::model::{LevelQuery, PageQuery};
        let query = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            from_query::<PageQuery>(pairs).map_err(|error| error.of_parameter())
        };
        let page = query(&[("limit", "7"), ("page_token", "9")]).unwrap();
        assert_eq!(page, PageQuery { limit: Some(7), page_token: Some("9".to_owned()) });
        for (pairs, expected) in [
            (&[("limit", "x")][..], "the parameter limit is \"x\"; allowed: a whole number from 1 to 1000"),
            (&[("label", "a")], "the parameter label is unknown; allowed: limit, page_token"),
            (&[("limit", "1"), ("limit", "2")], "the parameter limit occurs twice"),
        ] {
            assert_eq!(query(pairs).unwrap_err(), expected);
        }
        let level = from_query::<LevelQuery>(vec![("tiering".to_owned(), "true".to_owned())]).unwrap();
        assert_eq!(level.tiering, Some(true));
    }
}
