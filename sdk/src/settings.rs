//! Reads a settings document through serde, with errors that say where: RFC 6901 pointers, and for an unknown key or value the
//! nearest known one.

mod deserialize;
mod fault;
mod tree;

use serde::de::DeserializeOwned;

use crate::SettingsError;
use fault::Fault;
use tree::Tree;

/// Reads settings from JSON text. A key that stands twice in one object is an error wherever it is.
///
/// ```
/// #[derive(serde::Deserialize, Debug)]
/// #[serde(deny_unknown_fields)]
/// struct Settings {
///     tools: Vec<String>,
/// }
///
/// let error = callgate_sdk::settings::read::<Settings>(r#"{"tols": []}"#).unwrap_err();
/// assert_eq!(error.path, "/tols");
/// assert_eq!(error.message, "the key `tols` is not known here");
/// assert_eq!(error.hint.as_deref(), Some("did you mean `tools`?"));
/// ```
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, SettingsError> {
    let tree = Tree::parse(text)?;
    T::deserialize(&tree).map_err(Fault::into_error)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize, Debug, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Settings {
        rules: Vec<Entry>,
        #[serde(default)]
        limit: Option<u32>,
    }

    #[derive(Deserialize, Debug, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Entry {
        effect: Effect,
        #[serde(default)]
        weight: f64,
    }

    #[derive(Deserialize, Debug, PartialEq)]
    #[serde(rename_all = "lowercase")]
    enum Effect {
        Allow,
        Deny,
        Only(Vec<String>),
    }

    fn refused(text: &str) -> (String, String, Option<String>) {
        let SettingsError { path, message, hint } = read::<Settings>(text).unwrap_err();
        (path, message, hint)
    }

    fn refusal(path: &str, message: &str, hint: Option<&str>) -> (String, String, Option<String>) {
        (path.to_owned(), message.to_owned(), hint.map(str::to_owned))
    }

    #[test]
    fn a_document_that_fits_is_read() {
        let settings = read::<Settings>(
            r#"{"rules": [{"effect": "deny"}, {"effect": {"only": ["\u0061", "b"]}, "weight": -1.5}], "limit": 3}"#,
        );
        let only = Effect::Only(vec!["a".to_owned(), "b".to_owned()]);
        let rules = vec![Entry { effect: Effect::Deny, weight: 0.0 }, Entry { effect: only, weight: -1.5 }];
        assert_eq!(settings, Ok(Settings { rules, limit: Some(3) }));
        assert_eq!(read::<Settings>(r#"{"rules": [], "limit": null}"#), Ok(Settings { rules: vec![], limit: None }));
    }

    #[test]
    fn an_unknown_key_names_the_nearest_known_one() {
        assert_eq!(
            refused(r#"{"rules": [{"effect": "deny", "wieght": 1}]}"#),
            refusal("/rules/0/wieght", "the key `wieght` is not known here", Some("did you mean `weight`?"))
        );
        assert_eq!(
            refused(r#"{"rules": [], "a/b": 1}"#),
            refusal("/a~1b", "the key `a/b` is not known here", Some("the keys here are `rules`, `limit`"))
        );
    }

    #[test]
    fn an_unknown_value_names_the_nearest_known_one() {
        assert_eq!(
            refused(r#"{"rules": [{"effect": "allow"}, {"effect": "dney"}]}"#),
            refusal("/rules/1/effect", "`dney` is none of the values here", Some("did you mean `deny`?"))
        );
        assert_eq!(
            refused(r#"{"rules": [{"effect": "refuse"}]}"#),
            refusal(
                "/rules/0/effect",
                "`refuse` is none of the values here",
                Some("the values here are `allow`, `deny`, `only`")
            )
        );
    }

    #[test]
    fn a_missing_key_is_named_at_its_object() {
        assert_eq!(refused(r#"{"rules": [{}]}"#), refusal("/rules/0", "the key `effect` is missing", None));
    }

    #[test]
    fn a_value_of_another_type_is_named_where_it_stands() {
        assert_eq!(refused(r#"{"rules": {}}"#), refusal("/rules", "an object stands here, where a list belongs", None));
        assert_eq!(
            refused(r#"{"rules": [{"effect": {"only": ["a", 5]}}]}"#),
            refusal("/rules/0/effect/only/1", "5 stands here, where a string belongs", None)
        );
        assert_eq!(
            refused(r#"{"rules": [], "limit": -1}"#),
            refusal("/limit", "-1 stands here, where u32 belongs", None)
        );
        assert_eq!(
            refused(r#"{"rules": [], "limit": 1.5}"#),
            refusal("/limit", "a number with a fraction or exponent stands here, where u32 belongs", None)
        );
        assert_eq!(refused("[]"), refusal("", "a list stands here, where an object belongs", None));
    }

    #[test]
    fn a_repeated_key_is_refused_wherever_it_stands() {
        let repeated = |path, key: &str| refusal(path, &format!("the key `{key}` stands here twice"), None);
        assert_eq!(refused(r#"{"rules": [], "rules": []}"#), repeated("/rules", "rules"));
        assert_eq!(
            refused(r#"{"rules": [{"effect": {"only": [], "only": []}}]}"#),
            repeated("/rules/0/effect/only", "only")
        );
        assert!(read::<serde::de::IgnoredAny>(r#"[{"a": {"b": 1, "\u0062": 2}}]"#).is_err());
    }

    #[test]
    fn what_is_not_json_is_refused_with_its_place() {
        let (path, message, _) = refused("{\"rules\": [}");
        assert_eq!(path, "");
        assert_eq!(message, "not a JSON document: expected value at line 1 column 12");
        assert!(read::<Settings>(&"[".repeat(10_000)).is_err());
    }
}
