//! A request of the gRPC API in the shape of the REST API's JSON, without its text.
//!
//! The types in `wire` are written once, as what JSON comes to. A message becomes a [`Node`], and they are read from it by
//! the same `Deserialize`: numbers stay numbers, vectors stay vectors, lists are converted element by element.

use std::borrow::Cow;

use bytes::Bytes;
use serde::de::value::{Error, MapAccessDeserializer, SeqDeserializer, StrDeserializer, StringDeserializer};
use serde::de::{DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};

use super::value;

/// A JSON value that was never text.
pub enum Node {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    Text(String),
    /// A word of the API.
    Word(&'static str),
    Floats(Vec<f32>),
    Indices(Vec<u32>),
    /// Elements as they are asked for.
    List(Box<dyn Iterator<Item = Node> + Send + Sync>),
    Map(Vec<(Key, Node)>),
    /// An encoded `Value`, ...
    Value(Bytes),
    /// ... or the entries of a `map<string, Value>`; text when it is read.
    Payload(Vec<Bytes>),
    /// What the message should not have said, told when it is read.
    Wrong(String),
}

pub type Key = Cow<'static, str>;

impl Node {
    /// A list that is converted when it is read.
    pub fn list<T: Send + Sync + 'static>(items: Vec<T>, convert: fn(T) -> Node) -> Node {
        Node::List(Box::new(items.into_iter().map(convert)))
    }

    pub fn words(texts: Vec<String>) -> Node {
        Node::list(texts, Node::Text)
    }

    /// What JSON text says; only for small values.
    pub fn text(self) -> Result<String, Error> {
        let mut out = String::new();
        self.write(&mut out)?;
        Ok(out)
    }

    fn write(self, out: &mut String) -> Result<(), Error> {
        match self {
            Node::Payload(entries) => value::write_map(&entries, out).map_err(wrong),
            Node::Value(bytes) => value::write_value(&bytes, out).map_err(wrong),
            Node::Map(fields) => {
                out.push('{');
                for (i, (key, value)) in fields.into_iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    out.push_str(&json(&key)?);
                    out.push(':');
                    value.write(out)?;
                }
                out.push('}');
                Ok(())
            }
            Node::List(items) => {
                out.push('[');
                for (i, item) in items.enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    item.write(out)?;
                }
                out.push(']');
                Ok(())
            }
            Node::Floats(list) => put(out, &list),
            Node::Indices(list) => put(out, &list),
            Node::Null => put(out, &()),
            Node::Bool(b) => put(out, &b),
            Node::Int(n) => put(out, &n),
            Node::Uint(n) => put(out, &n),
            Node::Float(x) => put(out, &x),
            Node::Text(text) => put(out, &text),
            Node::Word(word) => put(out, word),
            Node::Wrong(what) => Err(wrong(what)),
        }
    }
}

fn put<T: serde::Serialize + ?Sized>(out: &mut String, value: &T) -> Result<(), Error> {
    out.push_str(&json(value)?);
    Ok(())
}

fn json<T: serde::Serialize + ?Sized>(value: &T) -> Result<String, Error> {
    serde_json::to_string(value).map_err(wrong)
}

fn wrong(what: impl std::fmt::Display) -> Error {
    serde::de::Error::custom(what)
}

/// Fields of a JSON object under construction; what the message doesn't have is left out.
#[derive(Default)]
pub struct Fields(Vec<(Key, Node)>);

impl Fields {
    pub fn new() -> Fields {
        Fields::default()
    }

    pub fn put(mut self, name: &'static str, node: Node) -> Fields {
        self.0.push((Key::Borrowed(name), node));
        self
    }

    pub fn maybe<T>(self, name: &'static str, value: Option<T>, convert: impl FnOnce(T) -> Node) -> Fields {
        match value {
            Some(value) => self.put(name, convert(value)),
            None => self,
        }
    }

    pub fn uint(self, name: &'static str, value: Option<impl Into<u64>>) -> Fields {
        self.maybe(name, value, |n| Node::Uint(n.into()))
    }

    pub fn float(self, name: &'static str, value: Option<impl Into<f64>>) -> Fields {
        self.maybe(name, value, |x| Node::Float(x.into()))
    }

    pub fn flag(self, name: &'static str, value: Option<bool>) -> Fields {
        self.maybe(name, value, Node::Bool)
    }

    pub fn text(self, name: &'static str, value: Option<String>) -> Fields {
        self.maybe(name, value, Node::Text)
    }

    pub fn node(self) -> Node {
        Node::Map(self.0)
    }
}

impl<'de> IntoDeserializer<'de, Error> for Node {
    type Deserializer = Node;
    fn into_deserializer(self) -> Node {
        self
    }
}

/// How `serde_json` asks for the text of a value.
const RAW: &str = "$serde_json::private::RawValue";

impl<'de> Deserializer<'de> for Node {
    type Error = Error;

    /// Tells gRPC from REST where the two differ in what they take.
    fn is_human_readable(&self) -> bool {
        false
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Node::Null => visitor.visit_unit(),
            Node::Bool(b) => visitor.visit_bool(b),
            Node::Int(n) => match u64::try_from(n) {
                Ok(n) => visitor.visit_u64(n),
                Err(_) => visitor.visit_i64(n),
            },
            Node::Uint(n) => visitor.visit_u64(n),
            Node::Float(x) => visitor.visit_f64(x),
            Node::Text(text) => visitor.visit_string(text),
            Node::Word(word) => visitor.visit_borrowed_str(word),
            Node::Floats(list) => visitor.visit_seq(Floats(list.into_iter())),
            Node::Indices(list) => visitor.visit_seq(SeqDeserializer::new(list.into_iter())),
            Node::List(items) => visitor.visit_seq(List(items)),
            Node::Map(fields) => visitor.visit_map(Map {
                fields: fields.into_iter(),
                value: None,
            }),
            Node::Wrong(what) => Err(wrong(what)),
            value @ (Node::Value(_) | Node::Payload(_)) => {
                let text = value.text()?;
                // A reader, because what is read must not borrow from the text.
                let mut json = serde_json::Deserializer::from_reader(text.as_bytes());
                json.deserialize_any(visitor).map_err(wrong)
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Node::Null => visitor.visit_none(),
            some => visitor.visit_some(some),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        if name == RAW {
            return visitor.visit_map(Raw(Some(self.text()?)));
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self {
            Node::Text(text) => StringDeserializer::new(text).deserialize_enum(name, variants, visitor),
            Node::Word(word) => StrDeserializer::new(word).deserialize_enum(name, variants, visitor),
            Node::Map(fields) => MapAccessDeserializer::new(Map {
                fields: fields.into_iter(),
                value: None,
            })
            .deserialize_enum(name, variants, visitor),
            _ => {
                let name = name.trim_start_matches("Wire");
                Err(wrong(format!("{name} is a word or an object with one field")))
            }
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

struct Floats(std::vec::IntoIter<f32>);

impl<'de> SeqAccess<'de> for Floats {
    type Error = Error;
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        self.0
            .next()
            .map(|x| seed.deserialize(x.into_deserializer()))
            .transpose()
    }
    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

struct List(Box<dyn Iterator<Item = Node> + Send + Sync>);

impl<'de> SeqAccess<'de> for List {
    type Error = Error;
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        self.0.next().map(|node| seed.deserialize(node)).transpose()
    }
}

struct Map {
    fields: std::vec::IntoIter<(Key, Node)>,
    value: Option<Node>,
}

impl<'de> MapAccess<'de> for Map {
    type Error = Error;
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some((key, value)) = self.fields.next() else {
            return Ok(None);
        };
        self.value = Some(value);
        match key {
            Cow::Borrowed(key) => seed.deserialize(StrDeserializer::new(key)),
            Cow::Owned(key) => seed.deserialize(StringDeserializer::new(key)),
        }
        .map(Some)
    }
    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(self.value.take().unwrap_or(Node::Null))
    }
}

/// A value as `serde_json` takes the text of one.
struct Raw(Option<String>);

impl<'de> MapAccess<'de> for Raw {
    type Error = Error;
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        if self.0.is_none() {
            return Ok(None);
        }
        seed.deserialize(StrDeserializer::new(RAW)).map(Some)
    }
    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(StringDeserializer::new(self.0.take().unwrap_or_default()))
    }
}

/// Reads `T` out of `node`.
pub fn read<'de, T: Deserialize<'de>>(node: Node) -> Result<T, Error> {
    T::deserialize(node)
}
