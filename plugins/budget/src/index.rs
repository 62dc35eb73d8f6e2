//! Finds the budgets that fit a call, at the cost of those of its agent and server whose tool pattern can match.

use callgate_sdk::matching::ToolIndex;

use crate::budget::{Budget, Scope};

/// The index over all budgets: those that name the same agent and server together, in the order of these.
#[derive(Debug)]
pub(crate) struct Index(Vec<Group>);

/// The budgets that name one agent and server, or none of either.
#[derive(Debug)]
struct Group {
    agent: Option<String>,
    server: Option<String>,
    /// Their tool patterns, each once.
    tools: ToolIndex,
    /// The places of each pattern's budgets.
    by_pattern: Vec<Vec<usize>>,
    /// The places of those about every tool.
    all_tools: Vec<usize>,
}

impl Index {
    pub(crate) fn new(budgets: &[Budget]) -> Self {
        let mut places: Vec<usize> = (0..budgets.len()).collect();
        let owner = |place: &usize| (&budgets[*place].scope.agent, &budgets[*place].scope.server);
        places
            .sort_by(|a, b| owner(a).cmp(&owner(b)).then_with(|| budgets[*a].scope.tool.cmp(&budgets[*b].scope.tool)));
        Self(places.chunk_by(|a, b| owner(a) == owner(b)).map(|places| Group::new(budgets, places)).collect())
    }

    /// The places of the budgets that fit a call, in order. Without an agent only those that name none do.
    pub(crate) fn fitting(&self, tool: &str, agent: Option<&str>, server: &str) -> Vec<usize> {
        let mut fitting = Vec::new();
        for server in [None, Some(server)] {
            self.extend(&mut fitting, tool, None, server);
            if agent.is_some() {
                self.extend(&mut fitting, tool, agent, server);
            }
        }
        fitting.sort_unstable();
        fitting
    }

    fn extend(&self, fitting: &mut Vec<usize>, tool: &str, agent: Option<&str>, server: Option<&str>) {
        let found =
            self.0.binary_search_by(|group| (group.agent.as_deref(), group.server.as_deref()).cmp(&(agent, server)));
        let Ok(group) = found.map(|group| &self.0[group]) else { return };
        fitting.extend(&group.all_tools);
        group.tools.each_matching(tool, |pattern| fitting.extend(&group.by_pattern[pattern]));
    }
}

impl Group {
    /// The group of budgets at places that are ordered by tool and are not none.
    fn new(budgets: &[Budget], places: &[usize]) -> Self {
        let scope = |place: usize| &budgets[place].scope;
        let mut patterns = Vec::new();
        let (mut by_pattern, mut all_tools) = (Vec::new(), Vec::new());
        for places in places.chunk_by(|a, b| scope(*a).tool == scope(*b).tool) {
            match &scope(places[0]).tool {
                Some(pattern) => {
                    patterns.push(pattern);
                    by_pattern.push(places.to_vec());
                }
                None => all_tools = places.to_vec(),
            }
        }
        let tools = ToolIndex::new(patterns);
        let Scope { agent, server, .. } = scope(places[0]).clone();
        Self { agent, server, tools, by_pattern, all_tools }
    }
}
