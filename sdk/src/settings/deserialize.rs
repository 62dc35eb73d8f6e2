//! Gives a tree a type. Every error is told where it happened on its way out.

use serde::de::value::{BorrowedStrDeserializer, StrDeserializer};
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error as _, IntoDeserializer, MapAccess, SeqAccess, Unexpected,
    VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use super::fault::{Fault, Step};
use super::tree::{Tree, refuse_repeated};

impl<'de> Deserializer<'de> for &'de Tree {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self {
            Tree::Null => visitor.visit_unit(),
            Tree::Bool(value) => visitor.visit_bool(*value),
            Tree::Unsigned(value) => visitor.visit_u64(*value),
            Tree::Signed(value) => visitor.visit_i64(*value),
            Tree::Float(value) => visitor.visit_f64(*value),
            Tree::String(value) => visitor.visit_borrowed_str(value),
            Tree::List(elements) => visitor.visit_seq(Elements { elements: elements.iter().enumerate() }),
            Tree::Object(entries) => {
                refuse_repeated(entries)?;
                visitor.visit_map(Entries { entries: entries.iter(), value: None })
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self {
            Tree::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match self {
            // Serde would take a list for a struct whose keys are left out.
            Tree::List(_) => Err(Fault::invalid_type(Unexpected::Seq, &visitor)),
            other => other.deserialize_any(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match self {
            Tree::String(name) => visitor.visit_enum(name.as_str().into_deserializer()),
            Tree::Object(entries) if entries.len() == 1 => {
                visitor.visit_enum(Variant { name: &entries[0].0, value: &entries[0].1 })
            }
            Tree::Object(entries) => {
                refuse_repeated(entries)?;
                Err(Fault::custom("an object stands here, where a name or an object with one key belongs"))
            }
            other => other.deserialize_any(visitor),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier ignored_any
    }
}

struct Elements<'de> {
    elements: std::iter::Enumerate<std::slice::Iter<'de, Tree>>,
}

impl<'de> SeqAccess<'de> for Elements<'de> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Fault> {
        let Some((index, element)) = self.elements.next() else { return Ok(None) };
        seed.deserialize(element).map(Some).map_err(|fault| fault.inside(Step::Index(index)))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.elements.len())
    }
}

struct Entries<'de> {
    entries: std::slice::Iter<'de, (String, Tree)>,
    /// The value whose key was read last.
    value: Option<(&'de String, &'de Tree)>,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Fault> {
        let Some((key, value)) = self.entries.next() else { return Ok(None) };
        self.value = Some((key, value));
        let at_key = |fault: Fault| fault.inside(Step::Key(key.clone()));
        seed.deserialize(BorrowedStrDeserializer::new(key)).map(Some).map_err(at_key)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Fault> {
        let (key, value) = self.value.take().ok_or_else(|| Fault::custom("a value was asked for before its key"))?;
        seed.deserialize(value).map_err(|fault| fault.inside(Step::Key(key.clone())))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.entries.len())
    }
}

/// An enum's case with something in it: `{"case": …}`.
struct Variant<'de> {
    name: &'de str,
    value: &'de Tree,
}

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = Fault;
    type Variant = Content<'de>;

    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, Content<'de>), Fault> {
        let name: StrDeserializer<'_, Fault> = self.name.into_deserializer();
        Ok((seed.deserialize(name)?, Content(self)))
    }
}

struct Content<'de>(Variant<'de>);

impl Content<'_> {
    fn at(&self) -> impl FnOnce(Fault) -> Fault + use<> {
        let step = Step::Key(self.0.name.to_owned());
        |fault| fault.inside(step)
    }
}

impl<'de> VariantAccess<'de> for Content<'de> {
    type Error = Fault;

    fn unit_variant(self) -> Result<(), Fault> {
        match self.0.value {
            Tree::Null => Ok(()),
            _ => Err(Fault::invalid_type(Unexpected::Other("a value"), &"nothing")).map_err(self.at()),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Fault> {
        seed.deserialize(self.0.value).map_err(self.at())
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Fault> {
        self.0.value.deserialize_any(visitor).map_err(self.at())
    }

    fn struct_variant<V: Visitor<'de>>(self, keys: &'static [&'static str], visitor: V) -> Result<V::Value, Fault> {
        self.0.value.deserialize_struct("", keys, visitor).map_err(self.at())
    }
}
