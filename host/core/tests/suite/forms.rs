//! The canonical digest: blind to how a call is spelled, and to nothing else.

use callgate_core::canonical::digest;
use proptest::prelude::*;

use crate::dice::{Dice, Value, value, write};

/// The value with its members sorted, so that equal values are equal.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Plain(_) | Value::Text(_) => value.clone(),
        Value::Array(values) => Value::Array(values.iter().map(sorted).collect()),
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().map(|(key, value)| (key.clone(), sorted(value))).collect();
            members.sort_by(|(a, _), (b, _)| a.cmp(b));
            Value::Object(members)
        }
    }
}

fn entropy() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn spelling_makes_no_difference(shape in entropy(), one in entropy(), other in entropy()) {
        let value = value(&mut Dice::new(shape), 4);
        let one = write(&value, &mut Dice::new(one));
        let other = write(&value, &mut Dice::new(other));
        prop_assert_eq!(digest(&one), digest(&other), "{} {}", one, other);
    }

    #[test]
    fn everything_else_does(one in prop::collection::vec(any::<u8>(), 0..12), other in prop::collection::vec(any::<u8>(), 0..12), spelling in entropy()) {
        let (one, other) = (value(&mut Dice::new(one), 3), value(&mut Dice::new(other), 3));
        let digests = [&one, &other].map(|value| digest(&write(value, &mut Dice::new(spelling.clone()))));
        prop_assert_eq!(sorted(&one) == sorted(&other), digests[0] == digests[1], "{:?} {:?}", one, other);
    }

    #[test]
    fn no_text_makes_it_panic(text in ".*") {
        digest(&text);
    }
}

#[test]
fn numbers_are_their_text() {
    let numbers = ["1", "1.0", "1e0", "10e-1", "-0", "0", "9007199254740992", "9007199254740993", "\"1\"", "true"];
    let digests: std::collections::HashSet<_> =
        numbers.iter().map(|number| digest(&format!(r#"{{"n":{number}}}"#))).collect();
    assert_eq!(digests.len(), numbers.len());
}

#[test]
fn the_digest_of_a_known_form_is_known() {
    // printf '{"a":[1,"\\n"],"b":null}' | sha256sum
    let known = "c1ad009c32074a58c6b444cd191a65e89bc7be3cccc85b5af4aaa0ce76c8db30";
    assert_eq!(digest(r#"{ "b":null, "a":[1, "\u000a"] }"#).to_string(), known);
}
