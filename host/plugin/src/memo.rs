//! Answers that are given again without asking: those that hold whatever the arguments are, by everything else that a plugin
//! is shown of a call.
//!
//! Agents call the same few tools over and over with other arguments, and most answers rest on caller and tool alone. What
//! is not kept, or not any more, is asked for; so nobody gains by filling it but that others wait for their plugin. It must
//! never hold an answer against a call that differs from its own in anything but the arguments.

use std::collections::HashMap;
use std::hash::BuildHasher as _;
use std::sync::{Arc, PoisonError, RwLock};

use callgate_core::call::{Call, Listed};
use callgate_core::charge::Charge;
use callgate_core::identity::Caller;
use callgate_core::verdict::{Answer, Denial, Question, Rule, Verdict};
use foldhash::quality::RandomState;

/// What one generation of answers takes at most, about: those of a thousand tools. There are two, a plugin.
const GENERATION_BYTES_MAX: usize = 512 << 10;

/// The largest answer that is kept, with the call it is for: the name of a tool may be any text, of megabytes too.
const KEPT_BYTES_MAX: usize = 16 << 10;

/// The answers of one plugin with its settings.
#[derive(Default)]
pub(crate) struct Memo {
    hashing: RandomState,
    generations: RwLock<Generations>,
}

/// Answers by the hash of what they are for. When the young take all the room there is for them they become the old ones, and
/// the old ones go; an old one that is given again is young again. So what goes was not given for a whole generation.
#[derive(Default)]
struct Generations {
    young: HashMap<u64, Kept>,
    young_bytes: usize,
    old: HashMap<u64, Kept>,
}

/// An answer and what it is for: a hash alone tells no two callers apart for certain.
struct Kept {
    caller: Arc<Caller>,
    tool: String,
    listed: Option<Arc<Listed>>,
    answer: Answer,
}

impl Memo {
    /// The answer to a call, if one is kept that holds for it.
    pub(crate) fn recall(&self, call: &Call) -> Option<Answer> {
        let hash = self.hashing.hash_one(shown(call));
        let generations = self.generations.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = generations.young.get(&hash) {
            return kept.is_for(call).then(|| kept.answer.clone());
        }
        let answer = generations.old.get(&hash).filter(|kept| kept.is_for(call))?.answer.clone();
        drop(generations);
        let gone = self.change(|generations| match generations.old.remove(&hash) {
            Some(kept) => generations.add(hash, kept),
            None => HashMap::new(),
        });
        drop(gone);
        Some(answer)
    }

    /// Keeps an answer that is the same whatever the arguments of this call are.
    pub(crate) fn keep(&self, call: &Call, answer: &Answer) {
        let kept = Kept::of(call, answer);
        if kept.bytes() <= KEPT_BYTES_MAX {
            let hash = self.hashing.hash_one(shown(call));
            let gone = self.change(|generations| generations.add(hash, kept));
            drop(gone);
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut Generations) -> T) -> T {
        change(&mut self.generations.write().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Generations {
    /// Adds to the young. What goes is handed over, so that nobody waits while it is torn down.
    fn add(&mut self, hash: u64, kept: Kept) -> HashMap<u64, Kept> {
        let bytes = kept.bytes();
        let mut gone = HashMap::new();
        if self.young_bytes + bytes > GENERATION_BYTES_MAX {
            gone = std::mem::replace(&mut self.old, std::mem::take(&mut self.young));
            self.young_bytes = 0;
        }
        let replaced = self.young.insert(hash, kept);
        self.young_bytes += bytes;
        self.young_bytes -= replaced.as_ref().map_or(0, Kept::bytes);
        gone
    }
}

impl Kept {
    fn of(call: &Call, answer: &Answer) -> Self {
        let (caller, tool, listed) = shown(call);
        Self {
            caller: Arc::clone(caller),
            tool: tool.to_owned(),
            listed: listed.map(Arc::clone),
            answer: answer.clone(),
        }
    }

    fn is_for(&self, call: &Call) -> bool {
        (&self.caller, self.tool.as_str(), self.listed.as_ref()) == shown(call)
    }

    /// What it takes, about; the caller, whom answers share, counts for each.
    fn bytes(&self) -> usize {
        let Answer { verdict, rule, notes, charges } = &self.answer;
        let verdict = match verdict {
            Verdict::Deny(Denial { code, message, .. }) | Verdict::Ask(Question { code, message, .. }) => {
                code.len() + message.len()
            }
            Verdict::Allow | Verdict::Abstain => 0,
        };
        let notes: usize = notes.iter().map(|note| size_of::<String>() + note.len()).sum();
        let charges: usize = charges.iter().map(charge_bytes).sum();
        let answer = verdict + rule.as_ref().map_or(0, rule_bytes) + notes + charges;
        size_of::<Self>() + caller_bytes(&self.caller) + self.tool.len() + size_of::<Listed>() + answer
    }
}

fn caller_bytes(Caller { agent, client, server, attributes }: &Caller) -> usize {
    let agent = agent.as_ref().map_or(0, |agent| agent.id.len() + agent.name.as_str().len() + agent.evidence.len());
    let attributes: usize = attributes.iter().map(|attribute| attribute.name.len() + attribute.value.len()).sum();
    size_of::<Caller>() + agent + client.len() + server.id.len() + server.name.as_str().len() + attributes
}

fn charge_bytes(charge: &Charge) -> usize {
    size_of::<Charge>() + charge.key.len() + rule_bytes(&charge.rule) + charge.code.len() + charge.message.len()
}

fn rule_bytes(Rule { path, policy, text }: &Rule) -> usize {
    path.len() + policy.as_ref().map_or(0, String::len) + text.len()
}

/// What a plugin is shown of a call, but for the arguments: caller and tool. Names every field of a call, so that a new one is
/// not forgotten here.
fn shown(call: &Call) -> (&Arc<Caller>, &str, Option<&Arc<Listed>>) {
    let Call { caller, tool, listed, binding: _, session: _, request_id: _, arguments: _ } = call;
    (caller, tool, listed.as_ref())
}

#[cfg(test)]
mod tests {
    use callgate_core::digest::Digest;
    use callgate_core::identity::{Server, SessionId};
    use callgate_core::permit::Binding;

    use super::*;

    fn call(tool: &str) -> Call {
        let server = Server { id: String::new(), name: "fs".parse().unwrap() };
        Call {
            binding: Binding { connection: 1, sequence: 1, frame: Digest::of(b"frame") },
            session: SessionId::from_random([1; 16]),
            request_id: "1".to_owned(),
            caller: Arc::new(Caller { agent: None, client: String::new(), server, attributes: Vec::new() }),
            tool: tool.to_owned(),
            listed: None,
            arguments: "{}".into(),
        }
    }

    /// An answer that tells for which call it is.
    fn answer(tool: &str) -> Answer {
        Answer { verdict: Verdict::Allow, rule: None, notes: vec![tool.to_owned()], charges: Vec::new() }
    }

    fn keep(memo: &Memo, tool: &str) {
        memo.keep(&call(tool), &answer(tool));
    }

    fn is_kept(memo: &Memo, tool: &str) -> bool {
        let recalled = memo.recall(&call(tool));
        assert!(recalled.as_ref().is_none_or(|recalled| *recalled == answer(tool)));
        recalled.is_some()
    }

    /// Entries and bytes of both generations, by counting.
    fn counted(memo: &Memo) -> (usize, usize) {
        let Generations { young, young_bytes, old } = &*memo.generations.read().unwrap();
        let bytes = |kept: &HashMap<u64, Kept>| kept.values().map(Kept::bytes).sum::<usize>();
        assert_eq!(bytes(young), *young_bytes);
        (young.len() + old.len(), bytes(young) + bytes(old))
    }

    #[test]
    fn tools_without_end_take_no_room_without_end_and_what_is_in_use_stays() {
        let memo = Memo::default();
        keep(&memo, "in use");
        for number in 0..20_000 {
            keep(&memo, &format!("tool {number}"));
            if number % 500 == 0 {
                assert!(is_kept(&memo, "in use"), "after {number} others");
            }
        }
        let (entries, bytes) = counted(&memo);
        assert!(bytes <= 2 * GENERATION_BYTES_MAX, "{bytes} bytes");
        assert!(entries <= 2 * GENERATION_BYTES_MAX / size_of::<Kept>() && entries > 1_000, "{entries} entries");
        assert!(is_kept(&memo, "tool 19999") && !is_kept(&memo, "tool 0"));
    }

    #[test]
    fn what_is_kept_twice_counts_once() {
        let memo = Memo::default();
        (0..100).for_each(|_| keep(&memo, "x"));
        assert_eq!(counted(&memo).0, 1);
    }

    #[test]
    fn what_is_large_is_not_kept() {
        let memo = Memo::default();
        keep(&memo, &"x".repeat(KEPT_BYTES_MAX));
        memo.keep(&call("y"), &Answer { notes: vec!["n".repeat(512); 64], ..answer("y") });
        assert_eq!(counted(&memo), (0, 0));
    }

    #[test]
    fn two_calls_of_one_hash_are_told_apart() {
        let memo = Memo::default();
        let hash = memo.hashing.hash_one(shown(&call("x")));
        for young in [true, false] {
            let kept = HashMap::from([(hash, Kept::of(&call("y"), &answer("y")))]);
            let (young, old) = if young { (kept, HashMap::new()) } else { (HashMap::new(), kept) };
            *memo.generations.write().unwrap() = Generations { young, young_bytes: 0, old };
            assert_eq!(memo.recall(&call("x")), None);
        }
    }
}
