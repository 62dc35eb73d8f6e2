//! `callgate plugin eval`: a plugin asked as the daemon would ask it, and nothing else: no daemon, no journal, no chain.

use std::path::Path;

use callgate_core::charge::Charge;
use callgate_core::verdict::{Answer, Failure as PluginFailure, Retry, Rule, Verdict};
use callgate_plugin::{Configured, Life, Measured, Plugin};
use serde::Serialize;

use super::load;
use crate::cli::plugin::Eval;
use crate::config::Config;
use crate::failure::{Exit, Failure, Outcome};
use crate::home::Home;
use crate::output;
use crate::plugins::asked::Asked;
use crate::plugins::table::{self, Dialect, word};
use crate::plugins::{shipped, store};

/// A file of calls or cases is read whole.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// What is asked, and with what when nobody says otherwise.
struct Subject {
    name: String,
    plugin: Plugin,
    settings: String,
}

pub(super) fn eval(eval: &Eval, home: &Home) -> Outcome {
    let subject = subject(eval, home)?;
    match (&eval.cases, &eval.calls) {
        (Some(cases), _) => run_table(&subject, cases),
        (None, Some(calls)) => {
            let settings = match &eval.settings {
                Some(file) => serde_json::Value::from(load::settings(file)?).to_string(),
                None => subject.settings.clone(),
            };
            ask(&configured(&subject, &settings)?, calls, eval.json.json)
        }
        (None, None) => Err(Failure::internal("neither cases nor calls were given")),
    }
}

/// A shipped plugin, an installed one, or a file.
fn subject(eval: &Eval, home: &Home) -> Result<Subject, Failure> {
    let name = &eval.plugin;
    let of = |name: &str, component: &[u8], settings: String| {
        let plugin = load::plugin(&load::engine(home)?, name, component)?;
        Ok(Subject { name: name.to_owned(), plugin, settings })
    };
    let none = || "{}".to_owned();
    if let Some(component) = shipped::component(name) {
        return of(name, component, none());
    }
    let installed = Config::load(&home.config_file())?.plugins;
    if let Some(entry) = installed.iter().find(|entry| entry.name.as_str() == name) {
        let component = store::read(home, entry).map_err(|error| {
            Failure::usage(format!("the plugin {name} cannot be used: {error}"))
                .hint(format!("callgate plugin install FILE --name {name}"))
        })?;
        return of(name, &component, entry.settings_text());
    }
    let file = Path::new(name);
    if !file.exists() {
        let known: Vec<String> =
            shipped::names().map(str::to_owned).chain(installed.iter().map(|entry| entry.name.to_string())).collect();
        return Err(Failure::usage(format!("{name} is neither a plugin of the chain nor a file"))
            .hint(format!("the plugins there are: {}", known.join(", "))));
    }
    of(&file.file_stem().unwrap_or_default().to_string_lossy(), &load::component(file)?, none())
}

fn configured(Subject { name, plugin, .. }: &Subject, settings: &str) -> Result<Configured, Failure> {
    let configured = plugin
        .configure(name, settings, Life::Fresh { ready: 1 })
        .map_err(|error| load::not_configured(name, &error))?;
    for warning in configured.warnings() {
        output::tell(&format!("warning: {}: {}", warning.path, warning.message));
    }
    Ok(configured)
}

fn run_table(subject: &Subject, file: &Path) -> Outcome {
    let dialect = if subject.name == "arguments" { Dialect::Arguments } else { Dialect::Plain };
    let sets = table::read(&load::text(file, FILE_BYTES_MAX)?, dialect)
        .map_err(|error| Failure::usage(format!("{} is not a table of cases: {error}", file.display())))?;
    let (mut cases, mut mismatches) = (0_usize, 0_usize);
    for (number, set) in sets.iter().enumerate() {
        let configured = match subject.plugin.configure(&subject.name, &set.settings, Life::Fresh { ready: 1 }) {
            Ok(configured) => configured,
            Err(error) => {
                mismatches += 1;
                output::line(&format!("set {number}: the settings do not load: {error}"))?;
                continue;
            }
        };
        for (place, case) in set.cases.iter().enumerate() {
            cases += 1;
            let mismatch = match case.call() {
                Ok(call) => case.mismatch(&configured.measure(&call).outcome),
                Err(why) => Some(why),
            };
            if let Some(mismatch) = mismatch {
                mismatches += 1;
                output::line(&format!("set {number}, call {place}: {mismatch}"))?;
            }
        }
    }
    output::line(&format!("{} sets, {cases} calls, {mismatches} mismatches", sets.len()))?;
    Ok(if mismatches == 0 { Exit::Done } else { Exit::No })
}

fn ask(plugin: &Configured, file: &Path, json: bool) -> Outcome {
    let text = load::text(file, FILE_BYTES_MAX)?;
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let at = |why: String| Failure::usage(format!("{}, line {}: {why}", file.display(), number + 1));
        let asked: Asked = serde_json::from_str(line).map_err(|error| at(error.to_string()))?;
        let evaluated = Evaluated::of(plugin, plugin.measure(&asked.call().map_err(at)?));
        if json {
            output::json(&evaluated)?;
        } else {
            output::line(&evaluated.text())?;
        }
    }
    Ok(Exit::Done)
}

/// What one call came to.
#[derive(Serialize)]
struct Evaluated {
    /// deny, ask, allow, abstain; of a plugin that failed, deny.
    verdict: &'static str,
    plugin: String,
    policy: Option<String>,
    rule: Option<Rule>,
    reason: Option<Said>,
    charges: Vec<Charge>,
    notes: Vec<String>,
    fuel: u64,
}

/// Why it is refused or asked.
#[derive(Serialize)]
struct Said {
    code: String,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<Retry>,
}

impl Evaluated {
    fn of(plugin: &Configured, Measured { outcome, fuel }: Measured) -> Self {
        let plugin = plugin.member().plugin.clone();
        match outcome {
            Ok(answer) => Self::answered(plugin, answer, fuel),
            Err(failure) => Self {
                verdict: "deny",
                plugin,
                policy: None,
                rule: None,
                reason: Some(failed(&failure)),
                charges: Vec::new(),
                notes: Vec::new(),
                fuel,
            },
        }
    }

    fn answered(plugin: String, answer: Answer, fuel: u64) -> Self {
        let Answer { verdict, rule, notes, charges } = answer;
        let word = word(&verdict);
        let reason = match verdict {
            Verdict::Deny(denial) => {
                Some(Said { code: denial.code, message: denial.message, retry: Some(denial.retry) })
            }
            Verdict::Ask(question) => Some(Said { code: question.code, message: question.message, retry: None }),
            Verdict::Allow | Verdict::Abstain => None,
        };
        let policy = rule.as_ref().and_then(|rule| rule.policy.clone());
        Self { verdict: word, plugin, policy, rule, reason, charges, notes, fuel }
    }

    fn text(&self) -> String {
        let rule = self.rule.as_ref().map(|rule| format!(" by {}", rule.text)).unwrap_or_default();
        let reason = self.reason.as_ref().map(|said| format!(": {} ({})", said.message, said.code)).unwrap_or_default();
        let charges: Vec<String> = self
            .charges
            .iter()
            .map(|charge| format!(" [{} of {} {}]", charge.amount, charge.limit, charge.key))
            .collect();
        let charges = charges.concat();
        let text = format!("{}{rule}{reason}{charges} ({} fuel)", self.verdict, self.fuel);
        callgate_core::escape::visible(&text).into_owned()
    }
}

fn failed(failure: &PluginFailure) -> Said {
    Said { code: failure.code().as_str().to_owned(), message: failure.to_string(), retry: None }
}
