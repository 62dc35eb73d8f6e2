//! Changing `plugins:` in the file that a person wrote: comments, order and every byte that is not about the change stay.
//!
//! Each edit is held against what it was meant to be: a file in a form that cannot be edited so is refused, and stays.

use std::str::FromStr;

use callgate_core::identity::PluginName;
use callgate_core::plugin::PluginEntry;
use serde_json::{Map, Value};
use yaml_edit::{Document, Mapping, Sequence, YamlNode};

use super::{Config, VERSION};
use crate::failure::Failure;

const PLUGINS: &str = "plugins";

/// The file with this plugin in the place of the one of its name, or at the end of the list. Without a file, a new one.
pub(crate) fn with_plugin(text: Option<&str>, plugin: &PluginEntry) -> Result<String, Failure> {
    let shipped = format!("version: {VERSION}\n");
    let text = text.unwrap_or(&shipped);
    let mut expected = Config::parse(text)?;
    let there = expected.plugins.iter().position(|there| there.name == plugin.name);
    let old = there.map(|there| std::mem::replace(&mut expected.plugins[there], plugin.clone()));
    if old.is_none() {
        expected.plugins.push(plugin.clone());
    }
    let written = written(plugin)?;
    edited(text, expected, Some(&written), |top| put(top, old.as_ref(), plugin, &written))
}

/// The file without the plugin of this name.
pub(crate) fn without_plugin(text: &str, name: &PluginName) -> Result<String, Failure> {
    let mut expected = Config::parse(text)?;
    expected.plugins.retain(|there| there.name != *name);
    edited(text, expected, None, |top| {
        let list = top.get_sequence(PLUGINS)?;
        let place = place(&list, name)?;
        list.remove(place).map(drop)
    })
}

/// A plugin as an item of the list is written.
fn written(plugin: &PluginEntry) -> Result<String, Failure> {
    serde_saphyr::to_string(plugin).map_err(|error| Failure::internal(format!("cannot write YAML: {error}")))
}

/// The text after `edit`, which gives `None` when the file has no place for it.
fn edited(
    text: &str,
    mut expected: Config,
    by_hand: Option<&str>,
    edit: impl FnOnce(&Mapping) -> Option<()>,
) -> Result<String, Failure> {
    let refused = || {
        let step = match by_hand {
            Some(item) => format!(
                "write this into the list `{PLUGINS}:` by hand, then callgate daemon restart:\n{}",
                as_item(item)
            ),
            None => format!("take it out of the list `{PLUGINS}:` by hand, then callgate daemon restart"),
        };
        Failure::usage("the configuration is written in a form that Callgate does not edit").hint(step)
    };
    let document = Document::from_str(text).map_err(|_| refused())?;
    let top = document.as_mapping().ok_or_else(refused)?;
    edit(&top).ok_or_else(refused)?;
    let mut text = document.to_string();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    let found = Config::parse(&text).map_err(|_| refused())?;
    expected.digest = found.digest;
    if found == expected { Ok(text) } else { Err(refused()) }
}

fn put(top: &Mapping, old: Option<&PluginEntry>, plugin: &PluginEntry, written: &str) -> Option<()> {
    let item = Document::from_str(written).ok()?.as_mapping()?;
    let list = top.get_sequence(PLUGINS).filter(|list| !list.is_empty());
    let Some(list) = list else {
        // A list of one, in lines of its own whatever form an empty one had.
        let list = Document::from_str(&as_item(written)).ok()?;
        top.set(PLUGINS, &list.as_sequence()?);
        return Some(());
    };
    let Some(place) = place(&list, &plugin.name) else {
        list.push(&item);
        return Some(());
    };
    let there = mapping(&list, place)?;
    merge(&there, &item, &members(old?), &members(plugin))
}

/// A plugin as the file says it: what is as it is by default is not among its members.
fn members(plugin: &PluginEntry) -> Map<String, Value> {
    match serde_json::to_value(plugin) {
        Ok(Value::Object(members)) => members,
        Ok(_) | Err(_) => Map::new(),
    }
}

/// Changes what differs and nothing else, member by member at every depth, so that what is said about each stays beside it.
fn merge(there: &Mapping, item: &Mapping, old: &Map<String, Value>, new: &Map<String, Value>) -> Option<()> {
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        there.remove(key.as_str());
    }
    for (key, value) in new.iter().filter(|(key, value)| old.get(*key) != Some(value)) {
        let node = item.get(key.as_str())?;
        match (there.get(key.as_str()), &node, old.get(key), value) {
            (Some(YamlNode::Mapping(there)), YamlNode::Mapping(node), Some(Value::Object(old)), Value::Object(new)) => {
                merge(&there, node, old, new)?;
            }
            _ => there.set(key.as_str(), &node),
        }
    }
    Some(())
}

/// A mapping's lines as an item of a list.
fn as_item(written: &str) -> String {
    let marks = std::iter::once("- ").chain(std::iter::repeat("  "));
    written.lines().zip(marks).flat_map(|(line, mark)| [mark, line, "\n"]).collect()
}

fn place(list: &Sequence, name: &PluginName) -> Option<usize> {
    (0..list.len()).find(|place| {
        let named = mapping(list, *place).and_then(|plugin| plugin.get("name"));
        named.and_then(|named| Some(named.as_scalar()?.as_string())).as_deref() == Some(name.as_str())
    })
}

fn mapping(list: &Sequence, place: usize) -> Option<Mapping> {
    match list.get(place)? {
        YamlNode::Mapping(mapping) => Some(mapping),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use callgate_core::digest::Digest;

    use super::*;

    fn plugin(name: &str, component: &str) -> PluginEntry {
        PluginEntry::new(name.parse().unwrap(), Digest::of(component.as_bytes()))
    }

    fn full(name: &str) -> PluginEntry {
        let mut plugin = plugin(name, "full");
        plugin.settings = serde_json::from_str(
            r#"{"folders": ["/srv/a b", "yes", "1", ""], "deep": {"n": 1, "f": 0.5, "none": null, "tab\t": "l1\nl2 # no comment"}}"#,
        )
        .unwrap();
        plugin.agents = vec!["cursor".to_owned(), "*-ci".to_owned()];
        plugin.servers = vec!["fs".to_owned()];
        plugin.may_grant = true;
        plugin.instance = callgate_core::plugin::InstanceLife::Kept;
        plugin
    }

    /// What somebody has written, in as many ways.
    fn files() -> Vec<String> {
        let (a, b) = (Digest::of(b"a"), Digest::of(b"b"));
        [
            "# mine\nversion: 1   # the only one\n\n# as shipped\ndefault: deny\n".to_owned(),
            "version: 1".to_owned(),
            "version: 1\nplugins: []  # none yet\nrecord: full # all of it\n".to_owned(),
            format!(
                "version: 1\nplugins:\n  # the first\n  - name: a # why\n    digest: {a}  # pinned\n    # about these\n    settings:\n      x: 1 # one\n    may_grant: true  # careful\n\n  # the second\n  - name: b\n    digest: {b}\n# behind\nrelay: {{ frame_bytes_max: 1MiB }}  # keep\n"
            ),
            format!("plugins:\n- digest: '{a}'\n  name: \"a\"\n\n- {{name: b, digest: {b}}} # short\n\nversion: 1\n"),
            format!("version: 1\nplugins: [{{name: a, digest: {a}}}, {{name: b, digest: {b}}}] # both\n"),
            format!("{{version: 1, default: deny, plugins: [{{name: a, digest: {a}}}]}}\n"),
            format!("version: 1\r\nplugins:\r\n  - name: a # why\r\n    digest: {a}\r\nrecord: full\r\n"),
        ]
        .into()
    }

    /// The lines of `text` in their order, among those of `other`.
    fn stays(text: &str, other: &str) -> bool {
        let mut lines = other.lines();
        text.lines().all(|line| lines.any(|same| same == line))
    }

    #[test]
    fn a_plugin_joins_at_the_end_and_every_line_stays() {
        for file in files() {
            for plugin in [plugin("new", "new"), full("new")] {
                let text = with_plugin(Some(&file), &plugin).unwrap();
                assert_eq!(Config::parse(&text).unwrap().plugins.last(), Some(&plugin), "{text}");
                // A list in one line, or an empty one, is itself the line that changes.
                let lines: Vec<&str> = file.lines().filter(|line| !line.contains("plugins: [")).collect();
                assert!(stays(&lines.join("\n"), &text), "{file}\nbecame\n{text}");
                for comment in file.lines().filter_map(|line| line.split_once('#')) {
                    assert!(text.contains(comment.1), "{comment:?} is not in\n{text}");
                }
                // And goes again without a trace but the key.
                let without = without_plugin(&text, &plugin.name).unwrap();
                assert_eq!(Config::parse(&without).unwrap().plugins, Config::parse(&file).unwrap().plugins);
                assert!(stays(&lines.join("\n"), &without), "{text}\nbecame\n{without}");
            }
        }
    }

    #[test]
    fn a_plugin_is_exchanged_in_its_place_with_its_comments() {
        for file in files().iter().filter(|file| file.contains("name: a")) {
            for plugin in [plugin("a", "new"), full("a")] {
                let text = with_plugin(Some(file), &plugin).unwrap();
                assert_eq!(Config::parse(&text).unwrap().plugins.first(), Some(&plugin), "{text}");
                assert_eq!(text.contains("# why"), file.contains("# why"), "{text}");
                assert_eq!(text.contains("# pinned"), file.contains("# pinned"), "{text}");
            }
        }
    }

    #[test]
    fn what_is_the_same_in_the_settings_keeps_its_comments() {
        let digest = Digest::of(b"a");
        let file = |one: &str| {
            format!(
                "version: 1\nplugins:\n  - name: a\n    digest: {digest}\n    settings:\n      # the first\n      one: {one} # 1\n      two: {{three: 3}} # 2, 3\n"
            )
        };
        let mut plugin = Config::parse(&file("1")).unwrap().plugins.remove(0);
        plugin.settings.insert("one".to_owned(), 11.into());
        assert_eq!(with_plugin(Some(&file("1")), &plugin).unwrap(), file("11"));
    }

    #[test]
    fn one_that_is_the_same_changes_no_byte() {
        for file in files().iter().filter(|file| file.ends_with('\n')) {
            for plugin in Config::parse(file).unwrap().plugins {
                assert_eq!(with_plugin(Some(file), &plugin).unwrap(), *file);
            }
        }
    }

    #[test]
    fn without_a_file_there_is_a_new_one() {
        let text = with_plugin(None, &plugin("a", "a")).unwrap();
        assert_eq!(text, format!("version: 1\nplugins:\n- name: a\n  digest: {}\n", Digest::of(b"a")));
    }

    #[test]
    fn a_form_that_is_not_edited_is_refused_with_what_to_write() {
        let digest = Digest::of(b"a");
        let file = format!("version: 1\nx-all: &list\nplugins:\n- &first\n  name: a\n  digest: {digest}\n- *first\n");
        assert!(with_plugin(Some(&file), &plugin("b", "b")).is_err());
    }
}
