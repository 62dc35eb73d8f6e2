//! The settings, and what is wrong with them.

mod written;

use std::collections::BTreeMap;

use callgate_sdk::bounds::{CHARGES_MAX, SLIDING_MS_MAX, ZONE_BYTES_MAX};
use callgate_sdk::matching::ToolPattern;
use callgate_sdk::{Calendar, CalendarUnit, NAME_FORM, Pointer, SettingsError, SettingsErrors, Window, is_name};
use serde::Deserialize;

use crate::amount::{AMOUNT_MAX, AmountArgument};
use crate::budget::{Budget, MS_PER_SECOND, Scope};
use crate::loops::Loops;
use crate::{crowd, pointer};
use written::{Entry, LoopsEntry, Span, Spending};

/// The most budgets: each is compared with all others when the settings are read, which takes a quarter of what configuring
/// may for so many.
pub const BUDGETS_MAX: usize = 1_000;

/// The longest name of an argument that holds an amount, in bytes.
const ARGUMENT_BYTES_MAX: usize = 256;

/// The plugin's settings: `{"budgets": [{"limit": 20, "tool": "list_repos"}, …], "loops": {"times": 3, "seconds": 10}}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    #[serde(default)]
    budgets: Vec<Entry>,
    /// Off when left out.
    loops: Option<LoopsEntry>,
}

impl Settings {
    /// The budgets and loop detection, or everything that is wrong with them.
    pub(crate) fn check(self) -> Result<(Vec<Budget>, Option<Loops>), SettingsErrors> {
        if self.budgets.len() > BUDGETS_MAX {
            let message = format!("{} budgets, where {BUDGETS_MAX} is the most", self.budgets.len());
            return Err(vec![SettingsError::new(Pointer::root().key("budgets"), message)]);
        }
        let mut errors = Vec::new();
        let mut budgets = Vec::with_capacity(self.budgets.len());
        for (place, entry) in self.budgets.into_iter().enumerate() {
            match entry.check(place) {
                Ok(budget) => budgets.push(budget),
                Err(error) => errors.push(error),
            }
        }
        let loops = self.loops.and_then(|loops| loops.check().map_err(|error| errors.push(error)).ok());
        if errors.is_empty() {
            errors = repeated(&budgets);
        }
        if errors.is_empty() {
            errors.extend(crowded(&budgets, loops.is_some()));
        }
        if errors.is_empty() { Ok((budgets, loops)) } else { Err(errors) }
    }
}

impl Entry {
    fn check(self, place: usize) -> Result<Budget, SettingsError> {
        let path = pointer(place);
        for (key, name) in [("agent", &self.agent), ("server", &self.server)] {
            if let Some(name) = name.as_ref().filter(|name| !is_name(name)) {
                let message = format!("{name:?} is no name that {key}s have, so the budget could never count");
                return Err(SettingsError::new(path.key(key), message).hint(format!("a name is {NAME_FORM}")));
            }
        }
        if self.limit > AMOUNT_MAX {
            let message = format!("a limit of {}, where 2^53 is the most", self.limit);
            return Err(SettingsError::new(path.key("limit"), message));
        }
        let scope = Scope {
            tool: tool(self.tool.as_deref(), self.all_tools, &path)?,
            agent: self.agent,
            server: self.server,
            subject: self.per,
            window: window(self.window, &path.clone().key("window"))?,
            occasion: self.count,
        };
        let amount = self.amount.map(|amount| amount.check(&path.key("amount"))).transpose()?;
        Ok(Budget::new(place, scope, amount, self.limit))
    }
}

fn tool(tool: Option<&str>, all_tools: Option<bool>, path: &Pointer) -> Result<Option<ToolPattern>, SettingsError> {
    match (tool, all_tools) {
        (Some(tool), None) => ToolPattern::parse(tool).map(Some).map_err(|error| {
            let hint = error.hint();
            let error = SettingsError::new(path.clone().key("tool"), error.to_string());
            SettingsError { hint: hint.map(str::to_owned), ..error }
        }),
        (None, Some(true)) => Ok(None),
        (None, Some(false)) => {
            Err(SettingsError::new(path.clone().key("all_tools"), "`all_tools` is true or left out")
                .hint("write `all_tools`: true, or name a `tool`"))
        }
        (Some(_), Some(_)) => {
            Err(SettingsError::new(path.clone(), "a budget names a `tool` or counts `all_tools`, not both")
                .hint("write two budgets"))
        }
        (None, None) => Err(SettingsError::new(path.clone(), "a budget names a `tool` or counts `all_tools`")
            .hint("add `tool`, or `all_tools`: true for the calls of all tools together")),
    }
}

fn window(span: Span, path: &Pointer) -> Result<Window, SettingsError> {
    match span {
        Span::Lifetime => Ok(Window::Lifetime),
        Span::Other { sliding_seconds: Some(seconds), calendar: None, zone: None } => {
            sliding_ms(seconds, &path.clone().key("sliding_seconds")).map(Window::Sliding)
        }
        Span::Other { sliding_seconds: None, calendar: Some(unit), zone } => {
            calendar(unit, zone, path).map(Window::Calendar)
        }
        Span::Other { .. } => Err(SettingsError::new(path.clone(), "a window is sliding or of the calendar")
            .hint("write `sliding_seconds` alone, or `calendar` and `zone`")),
    }
}

fn calendar(unit: CalendarUnit, zone: Option<String>, path: &Pointer) -> Result<Calendar, SettingsError> {
    let hint = "name the time zone, for example UTC or Europe/Berlin";
    match zone {
        None => Err(SettingsError::new(path.clone(), "the key `zone` is missing").hint(hint)),
        Some(zone) if zone.is_empty() => Err(SettingsError::new(path.clone().key("zone"), "an empty zone").hint(hint)),
        Some(zone) if zone.len() > ZONE_BYTES_MAX => {
            let message = format!("a zone of {} bytes, where {ZONE_BYTES_MAX} is the most", zone.len());
            Err(SettingsError::new(path.clone().key("zone"), message).hint(hint))
        }
        Some(zone) => Ok(Calendar { unit, zone }),
    }
}

/// Seconds of a sliding window in milliseconds.
fn sliding_ms(seconds: u32, path: &Pointer) -> Result<u32, SettingsError> {
    const SECONDS_MAX: u32 = SLIDING_MS_MAX / MS_PER_SECOND;
    if (1..=SECONDS_MAX).contains(&seconds) {
        return Ok(seconds * MS_PER_SECOND);
    }
    let message = format!("a window of {seconds} seconds, where 1 to {SECONDS_MAX} (31 days) may be");
    Err(SettingsError::new(path.clone(), message))
}

impl Spending {
    fn check(self, path: &Pointer) -> Result<AmountArgument, SettingsError> {
        let name = self.argument;
        if (1..=ARGUMENT_BYTES_MAX).contains(&name.len()) {
            return Ok(AmountArgument { name, is_required: self.required });
        }
        let message = format!("an argument's name of {} bytes, where 1 to {ARGUMENT_BYTES_MAX} may be", name.len());
        Err(SettingsError::new(path.clone().key("argument"), message))
    }
}

impl LoopsEntry {
    fn check(self) -> Result<Loops, SettingsError> {
        let path = Pointer::root().key("loops");
        if self.times == 0 {
            return Err(SettingsError::new(path.key("times"), "no call at all would pass")
                .hint("leave `loops` out to turn loop detection off"));
        }
        sliding_ms(self.seconds, &path.key("seconds"))?;
        Ok(Loops { times: self.times, seconds: self.seconds })
    }
}

/// One budget a counter: of two limits on it nobody could tell which is meant.
fn repeated(budgets: &[Budget]) -> SettingsErrors {
    let mut first = BTreeMap::new();
    let error = |(place, budget): (usize, &Budget)| {
        let earlier = *first.entry(budget.key().to_owned()).or_insert(place);
        if earlier == place {
            return None;
        }
        let text = &budgets[earlier].rule().text;
        let message = format!("there is a budget that counts the same already: `{text}`");
        Some(SettingsError::new(pointer(place), message).hint(format!("remove {} or this one", pointer(earlier))))
    };
    budgets.iter().enumerate().filter_map(error).collect()
}

/// More charges than an answer may hold would be a bad answer, and so a denial, for whoever makes such a call.
fn crowded(budgets: &[Budget], has_loops: bool) -> Option<SettingsError> {
    let together_max = CHARGES_MAX - usize::from(has_loops);
    let crowd = crowd::find(budgets, together_max)?;
    let others: Vec<String> = crowd.others.iter().map(|other| pointer(*other).to_string()).collect();
    let message =
        format!("more than {together_max} budgets could count one call, this one together with {}", others.join(", "));
    Some(SettingsError::new(pointer(crowd.place), message).hint("name a tool, an agent or a server in more of them"))
}
