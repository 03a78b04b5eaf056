//! Bodies as values: JSON as every reader understands it alike (I-JSON, RFC 7493). Names are unique, integers are exact.

use crate::bounds::NUMBER_MAX;
use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{
    Deserialize, DeserializeOwned, Deserializer, Error, IntoDeserializer, MapAccess, SeqAccess, Unexpected,
    Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::{Map, Number, Value};
use std::fmt;

/// A `T` from its text.
pub fn read<T: DeserializeOwned>(text: &[u8]) -> serde_json::Result<T> {
    let Exact(value) = serde_json::from_slice(text)?;
    from_value(value)
}

/// A `T` from a value.
pub fn from_value<T: DeserializeOwned>(value: Value) -> serde_json::Result<T> {
    T::deserialize(ByName(value))
}

/// A value whose objects have names: serde would also read a struct from an array of its members in order.
struct ByName(Value);

impl<'de> Deserializer<'de> for ByName {
    type Error = serde_json::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> serde_json::Result<V::Value> {
        match self.0 {
            Value::Array(items) => {
                let mut items = SeqDeserializer::new(items.into_iter().map(ByName));
                let value = visitor.visit_seq(&mut items)?;
                items.end()?;
                Ok(value)
            }
            Value::Object(members) => {
                let members = members.into_iter().map(|(name, value)| (name, ByName(value)));
                let mut members = MapDeserializer::new(members);
                let value = visitor.visit_map(&mut members)?;
                members.end()?;
                Ok(value)
            }
            value => value.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> serde_json::Result<V::Value> {
        match self.0 {
            Value::Null => visitor.visit_none(),
            value => visitor.visit_some(Self(value)),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> serde_json::Result<V::Value> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> serde_json::Result<V::Value> {
        if self.0.is_array() {
            return Err(Error::invalid_type(Unexpected::Seq, &"an object"));
        }
        self.deserialize_any(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> serde_json::Result<V::Value> {
        self.0.deserialize_enum(name, variants, visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        seq tuple tuple_struct map identifier ignored_any
    }
}

impl<'de> IntoDeserializer<'de, serde_json::Error> for ByName {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

struct Exact(Value);

struct ExactVisitor;

impl<'de> Deserialize<'de> for Exact {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(ExactVisitor).map(Self)
    }
}

impl<'de> Visitor<'de> for ExactVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        if number > NUMBER_MAX {
            return Err(E::custom(format!("the number {number}; allowed: at most {NUMBER_MAX}")));
        }
        Ok(number.into())
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    /// `2.0` and `2e0` are integers too (JSON Schema 2020-12 core, §4.2.3).
    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        let integer = (number.fract() == 0.0).then(|| format!("{number:.0}").parse::<u64>().ok()).flatten();
        match integer {
            Some(integer) => self.visit_u64(integer),
            None => Ok(Number::from_f64(number).map_or(Value::Null, Value::Number)),
        }
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(Exact(item)) = items.next_element()? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some((name, Exact(value))) = items.next_entry::<String, Exact>()? {
            if map.contains_key(&name) {
                return Err(A::Error::custom(format!("the name {name:?} twice")));
            }
            map.insert(name, value);
        }
        Ok(Value::Object(map))
    }
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
            let read: serde_json::Result<u64> = read(bad.as_bytes());
            assert!(read.is_err(), "{bad}");
        }
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
            assert!(error.contains("invalid type: sequence, expected an object"), "{bad}: {error}");
        }
        assert!(read::<Outer>(br#"{"outer": {}}"#).is_err(), "an unknown name");
    }
}
