//! The edit of a file: splices into its text, read back and held against what they were meant to come to.

use crate::client::{Form, Format};
use crate::syntax::splice::{Splice, Writing, spliced};
use crate::syntax::{self, Content, Layout, Member, Node};

/// What changes in one entry.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Edit {
    /// The way to the entry from the top.
    pub(crate) places: Vec<usize>,
    /// Another command.
    pub(crate) command: Option<String>,
    /// What comes in front of the arguments; its last word is the command that was.
    pub(crate) in_front: Vec<String>,
    /// Other arguments in the place of those that were.
    pub(crate) all_args: Option<Vec<String>>,
    /// The places of the variables that go.
    pub(crate) without: Vec<usize>,
}

impl Edit {
    pub(crate) const fn is_any(&self) -> bool {
        self.command.is_some() || !self.in_front.is_empty() || self.all_args.is_some() || !self.without.is_empty()
    }
}

/// The text with these edits, each of another entry. `None` when it is in a form in which that cannot be done.
pub(crate) fn edited(format: Format, text: &str, top: &Node, edits: &[Edit]) -> Option<String> {
    let writing = Writing { dialect: format.dialect, text };
    let mut splices = Vec::new();
    let mut meant = top.clone();
    for edit in edits {
        let entry = top.at(&edit.places)?;
        splices.extend(command_splices(format.form, writing, entry, edit)?);
        if !edit.without.is_empty() {
            splices.extend(writing.without(entry.value(format.form.env)?, &edit.without));
        }
        apply(format.form, meant.at_mut(&edit.places)?, edit)?;
    }
    let text = spliced(text, splices);
    let back = syntax::parse(format.dialect, &text).ok()?;
    back.says_the_same(&meant).then_some(text)
}

fn command_splices(form: Form, writing: Writing<'_>, entry: &Node, edit: &Edit) -> Option<Vec<Splice>> {
    let Content::Table(_, layout) = &entry.content else { return None };
    let command = entry.member(form.command)?;
    let Some(args) = form.args else { return in_one_list(writing, &command.value, edit) };
    let mut splices: Vec<Splice> = edit.command.iter().map(|text| writing.replaced(&command.value, text)).collect();
    let words = edit.all_args.as_ref().unwrap_or(&edit.in_front);
    if !words.is_empty() {
        splices.push(match entry.value(args) {
            Some(list) if edit.all_args.is_some() => writing.other_items(list, words),
            Some(list) => writing.in_front(list, words),
            None => writing.behind(command, *layout, args, words),
        });
    }
    Some(splices)
}

/// The command and its arguments are one list, whose first word is the command.
fn in_one_list(writing: Writing<'_>, list: &Node, edit: &Edit) -> Option<Vec<Splice>> {
    let program = edit.command.as_deref();
    if let Some(all) = &edit.all_args {
        let program = program.or_else(|| list.items()?.first()?.text())?;
        let words: Vec<String> = std::iter::once(program.to_owned()).chain(all.iter().cloned()).collect();
        return Some(vec![writing.other_items(list, &words)]);
    }
    let Some((_, words)) = edit.in_front.split_last() else {
        let first = list.items()?.first()?;
        return Some(program.map(|program| writing.replaced(first, program)).into_iter().collect());
    };
    let words: Vec<String> = std::iter::once(program?.to_owned()).chain(words.iter().cloned()).collect();
    Some(vec![writing.in_front(list, &words)])
}

/// The same on the tree: what the text is to mean.
fn apply(form: Form, entry: &mut Node, edit: &Edit) -> Option<()> {
    match form.args {
        Some(args) => apply_apart(form, args, entry, edit)?,
        None => apply_in_one(entry.value_mut(form.command)?, edit)?,
    }
    if !edit.without.is_empty() {
        let mut place = 0;
        entry.value_mut(form.env)?.members_mut()?.retain(|_| {
            place += 1;
            !edit.without.contains(&(place - 1))
        });
    }
    Some(())
}

/// The command and its arguments are two members.
fn apply_apart(form: Form, args: &str, entry: &mut Node, edit: &Edit) -> Option<()> {
    if let Some(command) = &edit.command {
        entry.value_mut(form.command)?.content = Content::Text(command.clone());
    }
    let mut words = words(edit);
    if let Some(list) = entry.value_mut(args) {
        let Content::List(items, _) = &mut list.content else { return None };
        if edit.all_args.is_none() {
            words.append(items);
        }
        *items = words;
    } else if !words.is_empty() {
        let value = Node { span: 0..0, content: Content::List(words, Layout::Bracketed) };
        let at = entry.members()?.iter().position(|member| member.key == form.command)? + 1;
        entry.members_mut()?.insert(at, Member { key: args.to_owned(), key_span: 0..0, value });
    }
    Some(())
}

/// They are one list.
fn apply_in_one(list: &mut Node, edit: &Edit) -> Option<()> {
    let Content::List(items, _) = &mut list.content else { return None };
    let mut rest = items.split_off(1);
    if edit.all_args.is_some() {
        rest.clear();
    }
    if let Some(command) = &edit.command {
        *items.first_mut()? = Node::of(command);
    }
    items.extend(words(edit));
    items.append(&mut rest);
    Some(())
}

fn words(edit: &Edit) -> Vec<Node> {
    edit.all_args.as_ref().unwrap_or(&edit.in_front).iter().map(|word| Node::of(word)).collect()
}
