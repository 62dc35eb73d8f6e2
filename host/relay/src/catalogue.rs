//! What the server said of its tools. Claims of an untrusted party, handed on as such.

use std::collections::HashMap;

use callgate_core::call::{Annotations, Listed};
use callgate_core::digest::Digest;
use serde::Deserialize;
use serde_json::value::RawValue;

/// How many tools are remembered; a model cannot use a hundredth of them.
pub(crate) const TOOLS_MAX: usize = 4096;

/// Tools by their exact names.
#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    tools: HashMap<String, Listed>,
}

#[derive(Deserialize)]
struct Page<'a> {
    #[serde(borrow)]
    tools: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Tool {
    name: String,
    #[serde(default)]
    annotations: Option<Annotations>,
}

impl Catalogue {
    /// Learns from the result of a `tools/list`. A first page replaces what was known, another one adds to it. What cannot
    /// be read is not learned.
    pub(crate) fn learn(&mut self, result: &str, first: bool) {
        if first {
            self.tools.clear();
        }
        let Ok(page) = serde_json::from_str::<Page<'_>>(result) else { return };
        for definition in page.tools {
            let Ok(Tool { name, annotations }) = serde_json::from_str(definition.get()) else { continue };
            if self.tools.len() < TOOLS_MAX || self.tools.contains_key(&name) {
                let definition = Digest::of(definition.get().as_bytes());
                self.tools.insert(name, Listed { annotations, definition });
            }
        }
    }

    /// What the server said of a tool.
    pub(crate) fn tool(&self, name: &str) -> Option<&Listed> {
        self.tools.get(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: &str = r#"{"name": "read",  "annotations":{"readOnlyHint":true,"title":"x"}}"#;

    #[test]
    fn a_tool_is_known_by_the_digest_of_its_exact_definition_and_its_annotations() {
        let mut catalogue = Catalogue::default();
        catalogue.learn(&format!(r#"{{"tools":[{READ},{{"name":"b"}}],"nextCursor":""}}"#), true);
        let read = catalogue.tool("read").unwrap();
        assert_eq!(read.definition, Digest::of(READ.as_bytes()));
        assert_eq!(read.annotations, Some(Annotations { read_only: Some(true), ..Annotations::default() }));
        assert_eq!(catalogue.tool("b").unwrap().annotations, None);
        assert_eq!(catalogue.tool("Read"), None);
    }

    #[test]
    fn a_later_page_adds_and_a_fresh_first_page_replaces() {
        let mut catalogue = Catalogue::default();
        catalogue.learn(r#"{"tools":[{"name":"a"}],"nextCursor":"1"}"#, true);
        catalogue.learn(r#"{"tools":[{"name":"b"}]}"#, false);
        assert!(catalogue.tool("a").is_some() && catalogue.tool("b").is_some());
        catalogue.learn(r#"{"tools":[{"name":"b"}]}"#, true);
        assert!(catalogue.tool("a").is_none() && catalogue.tool("b").is_some());
    }

    #[test]
    fn what_is_ambiguous_or_unreadable_is_not_learned() {
        let mut catalogue = Catalogue::default();
        catalogue.learn(r#"{"tools":[{"name":"a","name":"b"},{"title":"x"},7,{"name":"c","annotations":{"readOnlyHint":1}},{"name":"d"}]}"#, true);
        assert_eq!(catalogue.tools.keys().collect::<Vec<_>>(), ["d"]);
        catalogue.learn(r#"{"tools":7}"#, false);
        catalogue.learn("nonsense", false);
        assert!(catalogue.tool("d").is_some());
    }

    #[test]
    fn no_more_tools_are_kept_than_there_is_room_for() {
        let mut catalogue = Catalogue::default();
        let tools: Vec<String> = (0..TOOLS_MAX + 10).map(|at| format!(r#"{{"name":"t{at}"}}"#)).collect();
        catalogue.learn(&format!(r#"{{"tools":[{}]}}"#, tools.join(",")), true);
        assert_eq!(catalogue.tools.len(), TOOLS_MAX);
    }
}
