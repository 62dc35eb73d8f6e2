//! The digest that the host gives a call's arguments, so that tests see the same ones.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

pub(super) fn digest(arguments: &str) -> String {
    let object: BTreeMap<String, &RawValue> = serde_json::from_str(arguments).expect("arguments are a JSON object");
    let mut canonical = String::new();
    write_object(object, &mut canonical);
    Sha256::digest(canonical).iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").expect("writing to a String does not fail");
        hex
    })
}

fn write_value(value: &RawValue, out: &mut String) {
    let text = value.get();
    match text.as_bytes()[0] {
        b'{' => write_object(serde_json::from_str(text).expect("a raw value is JSON"), out),
        b'[' => {
            let elements: Vec<&RawValue> = serde_json::from_str(text).expect("a raw value is JSON");
            out.push('[');
            for (index, element) in elements.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_value(element, out);
            }
            out.push(']');
        }
        b'"' => write_string(&serde_json::from_str::<String>(text).expect("a raw value is JSON"), out),
        _ => out.push_str(text),
    }
}

fn write_object(object: BTreeMap<String, &RawValue>, out: &mut String) {
    out.push('{');
    for (index, (key, value)) in object.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_string(&key, out);
        out.push(':');
        write_value(value, out);
    }
    out.push('}');
}

fn write_string(text: &str, out: &mut String) {
    out.push_str(&serde_json::to_string(text).expect("a string is JSON"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_call_has_the_same_digest_however_it_is_spelled() {
        let digest_of = digest(r#"{"a":"é","b":[1.0,{"c":null}]}"#);
        assert_eq!(digest("{ \"b\" : [ 1.0, {\"c\":null} ], \"\\u0061\": \"\\u00e9\" }"), digest_of);
        assert_ne!(digest(r#"{"a":"é","b":[1,{"c":null}]}"#), digest_of);
        assert_eq!(digest(" { } "), "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a");
    }
}
