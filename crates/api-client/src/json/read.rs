//! A value as the input of a type. Errors name their place and the words of JSON.

use super::error::Error;
use crate::bounds::NUMBER_MAX;
use serde::de::value::StringDeserializer;
use serde::de::{DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Value, map};
use std::vec;

/// A value whose objects have names: serde would also read a struct from an array of its members in order.
pub(super) struct Input {
    value: Value,
    /// In a query all values are texts.
    is_query: bool,
}

struct Items {
    items: vec::IntoIter<Value>,
    place: usize,
}

struct Members {
    members: map::IntoIter,
    /// The last name, and its value if it was not read yet.
    member: (String, Option<Value>),
    is_query: bool,
}

impl Input {
    pub(super) fn json(value: Value) -> Self {
        Self { value, is_query: false }
    }

    pub(super) fn query(value: Value) -> Self {
        Self { value, is_query: true }
    }

    /// A number or a truth value in a query.
    fn parsed(self) -> Result<Self, Error> {
        let Value::String(text) = &self.value else { return Ok(self) };
        let value = match text.as_str() {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            digits if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                Value::from(digits.parse::<u64>().map_err(|_| too_great(digits))?)
            }
            _ => return Ok(self),
        };
        Ok(Self { value, ..self })
    }
}

fn too_great(number: &str) -> Error {
    Error::value(number, format!("at most {NUMBER_MAX}"))
}

macro_rules! numbers {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            let input = if self.is_query { self.parsed()? } else { self };
            input.deserialize_any(visitor)
        }
    )*};
}

impl<'de> Deserializer<'de> for Input {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(value),
            Value::String(text) => visitor.visit_string(text),
            Value::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
                (Some(great), ..) if great > NUMBER_MAX => Err(too_great(&great.to_string())),
                (Some(number), ..) => visitor.visit_u64(number),
                (None, Some(number), _) => visitor.visit_i64(number),
                (None, None, number) => visitor.visit_f64(number.unwrap_or(f64::NAN)),
            },
            Value::Array(items) => visitor.visit_seq(Items { items: items.into_iter(), place: 0 }),
            Value::Object(members) => visitor.visit_map(Members {
                members: members.into_iter(),
                member: (String::new(), None),
                is_query: self.is_query,
            }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Null => visitor.visit_none(),
            value => visitor.visit_some(Self { value, ..self }),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        if self.value.is_array() {
            return Err(Error::value("an array", "an object"));
        }
        self.deserialize_any(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        words: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let found = match self.value {
            Value::String(word) => {
                let word: StringDeserializer<Error> = word.into_deserializer();
                return visitor.visit_enum(word);
            }
            Value::Array(_) => "an array".to_owned(),
            Value::Object(_) => "an object".to_owned(),
            plain @ (Value::Null | Value::Bool(_) | Value::Number(_)) => plain.to_string(),
        };
        Err(Error::value(found, words.join(", ")))
    }

    numbers! {
        deserialize_bool deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_i64
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i128 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        seq tuple tuple_struct map identifier ignored_any
    }
}

impl<'de> SeqAccess<'de> for Items {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let Some(value) = self.items.next() else { return Ok(None) };
        let place = self.place;
        self.place += 1;
        seed.deserialize(Input::json(value)).map(Some).map_err(|error| error.inside(&place.to_string()))
    }
}

impl<'de> MapAccess<'de> for Members {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some((name, value)) = self.members.next() else { return Ok(None) };
        self.member = (name.clone(), Some(value));
        let name: StringDeserializer<Error> = name.into_deserializer();
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let (name, value) = &mut self.member;
        let input = Input { value: value.take().unwrap_or_default(), is_query: self.is_query };
        seed.deserialize(input).map_err(|error| error.inside(name))
    }
}
