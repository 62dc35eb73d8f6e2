//! Many tool patterns at once: one trie over all of them, walked as a nondeterministic automaton.
//!
//! Patterns that begin alike share their beginning, those behind one `*` share what follows it, and a walk only follows
//! what the name allows. So a lookup costs with the patterns that can still match, not with all there are: ten thousand
//! globs such as `*_suffix123` are one `*` with a trie behind it.

use std::ops::Range;

use super::ToolPattern;

/// An index over tool patterns, each known by its place in the list that the index was made of.
///
/// ```
/// use callgate_match::{ToolIndex, ToolPattern};
///
/// let patterns = ["read_file", "read_*", "*_file", "write_*"].map(|text| ToolPattern::parse(text).unwrap());
/// let index = ToolIndex::new(&patterns);
/// let mut found = index.matching("read_file");
/// found.sort_unstable();
/// assert_eq!(found, [0, 1, 2]);
/// ```
#[derive(Clone, Debug)]
pub struct ToolIndex {
    /// Every pattern's characters one after another; `*` and `?` are wildcards, as no pattern can mean them literally.
    pool: Vec<char>,
    /// The trie; a node's children stand together. The first is the root.
    nodes: Vec<Node>,
    /// The first character of each node's label, so that looking for a child does not visit the children.
    firsts: Vec<char>,
    /// Pattern numbers in trie order: what a node accepts is a range of these.
    order: Vec<u32>,
}

const ROOT: u32 = 0;

/// A trie node. Its label is what all patterns below it have in common since its parent.
#[derive(Clone, Debug)]
struct Node {
    /// The label, a range of the pool.
    label: Range<u32>,
    /// The children, a range of the nodes, ordered by first character.
    children: Range<u32>,
    /// The child whose label begins with `*`.
    star: Option<u32>,
    /// The child whose label begins with `?`.
    any: Option<u32>,
    /// The patterns that end here, a range of the order.
    accepts: Range<u32>,
}

/// A place in the trie: so much of a node's label is behind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Place {
    node: u32,
    /// An index into the pool, from the label's start to its end.
    at: u32,
}

impl ToolIndex {
    /// Indexes the patterns. Takes n log n in their number, and memory in proportion to their text.
    pub fn new<'a>(patterns: impl IntoIterator<Item = &'a ToolPattern>) -> Self {
        Builder::new(patterns).build()
    }

    /// The numbers of the patterns that match the name, each once, in no particular order.
    pub fn matching(&self, name: &str) -> Vec<usize> {
        let mut found = Vec::new();
        self.each_matching(name, |pattern| found.push(pattern));
        found
    }

    /// Calls `found` with the number of each pattern that matches the name, once each, in no particular order.
    pub fn each_matching(&self, name: &str, found: impl FnMut(usize)) {
        let places = Vec::with_capacity(PLACES_AT_FIRST);
        let mut walk = Walk { index: self, found, places, behind: 0, stars: Vec::new(), looping: Vec::new() };
        walk.enter_node(ROOT);
        for given in name.chars() {
            walk.step(given);
            if walk.is_over() {
                return;
            }
        }
        walk.finish();
    }

    fn node(&self, node: u32) -> &Node {
        &self.nodes[node as usize]
    }

    fn char(&self, at: u32) -> char {
        self.pool[at as usize]
    }

    fn child(&self, node: &Node, first: char) -> Option<u32> {
        let firsts = &self.firsts[node.children.start as usize..node.children.end as usize];
        let offset = firsts.binary_search(&first).ok()?;
        u32::try_from(offset).ok().map(|offset| node.children.start + offset)
    }
}

/// How many places a walk has room for before it has to ask for more: enough for a usual name.
const PLACES_AT_FIRST: usize = 32;

/// A walk over one name. A place is entered at most once a character: the way to it from the last `*` before it has a
/// fixed length, and each `*` is entered once, so only those need remembering.
struct Walk<'a, F> {
    index: &'a ToolIndex,
    found: F,
    /// Every place entered so far but for `*`, those that were left first.
    places: Vec<Place>,
    /// How many of them were left.
    behind: usize,
    /// The `*` places ever entered, ordered.
    stars: Vec<Place>,
    /// The places behind those `*`, from which every further character may go on.
    looping: Vec<Place>,
}

impl<F: FnMut(usize)> Walk<'_, F> {
    fn step(&mut self, given: char) {
        // What is entered during this step, a `*` too, sees the characters after this one.
        let (now, looping) = (self.behind..self.places.len(), self.looping.len());
        self.behind = self.places.len();
        for place in now {
            self.advance(self.places[place], given);
        }
        for place in 0..looping {
            self.advance(self.looping[place], given);
        }
    }

    fn is_over(&self) -> bool {
        self.behind == self.places.len() && self.looping.is_empty()
    }

    /// Takes one character from a place.
    fn advance(&mut self, place: Place, given: char) {
        let index = self.index;
        let node = index.node(place.node);
        if place.at < node.label.end {
            let wanted = index.char(place.at);
            if wanted == '?' || wanted == given {
                self.enter(Place { at: place.at + 1, ..place });
            }
            return;
        }
        if let Some(any) = node.any {
            self.enter(Place { node: any, at: index.node(any).label.start + 1 });
        }
        if !matches!(given, '*' | '?')
            && let Some(child) = index.child(node, given)
        {
            self.enter(Place { node: child, at: index.node(child).label.start + 1 });
        }
    }

    fn enter_node(&mut self, node: u32) {
        self.enter(Place { node, at: self.index.node(node).label.start });
    }

    /// Enters a place, and what is reached from it without a character.
    fn enter(&mut self, place: Place) {
        let index = self.index;
        let node = index.node(place.node);
        if place.at == node.label.end {
            self.places.push(place);
            if let Some(star) = node.star {
                self.enter_node(star);
            }
        } else if index.char(place.at) == '*' {
            self.enter_star(place);
        } else {
            self.places.push(place);
        }
    }

    fn enter_star(&mut self, place: Place) {
        let Err(slot) = self.stars.binary_search(&place) else { return };
        self.stars.insert(slot, place);
        let node = self.index.node(place.node);
        let behind = Place { at: place.at + 1, ..place };
        if behind.at == node.label.end {
            // A pattern that ends in `*` matches now, whatever follows.
            self.accept(node.accepts.clone());
            if node.children.is_empty() {
                return;
            }
        }
        self.looping.push(behind);
    }

    /// The name is over: what ends here matches.
    fn finish(mut self) {
        for place in self.behind..self.places.len() {
            let place = self.places[place];
            let node = self.index.node(place.node);
            if place.at == node.label.end {
                self.accept(node.accepts.clone());
            }
        }
    }

    fn accept(&mut self, accepts: Range<u32>) {
        for pattern in &self.index.order[accepts.start as usize..accepts.end as usize] {
            (self.found)(*pattern as usize);
        }
    }
}

/// Makes the trie out of sorted patterns, from the root down. Keeps its own stack: patterns may be nested a thousand deep,
/// and a plugin's stack is small.
struct Builder {
    pool: Vec<char>,
    patterns: Vec<Range<u32>>,
    order: Vec<u32>,
    nodes: Vec<Node>,
    firsts: Vec<char>,
}

impl Builder {
    fn new<'a>(patterns: impl IntoIterator<Item = &'a ToolPattern>) -> Self {
        let mut pool = Vec::new();
        let mut ranges = Vec::new();
        for pattern in patterns {
            let start = number(pool.len());
            normalise(pattern.as_str(), &mut pool);
            ranges.push(start..number(pool.len()));
        }
        let mut order: Vec<u32> = (0..number(ranges.len())).collect();
        order.sort_by(|a, b| chars(&pool, &ranges[*a as usize]).cmp(chars(&pool, &ranges[*b as usize])));
        Self { pool, patterns: ranges, order, nodes: Vec::new(), firsts: Vec::new() }
    }

    fn build(mut self) -> ToolIndex {
        self.push_node('\0');
        // A node to make, the patterns below it as a range of the order, and how many of their characters are behind.
        let mut open = vec![(ROOT, 0..self.order.len(), 0)];
        while let Some((node, below, behind)) = open.pop() {
            if below.is_empty() {
                continue;
            }
            let behind = self.fill(node, &below, behind);
            let mut rest = below.start + self.nodes[node as usize].accepts.len();
            let children = number(self.nodes.len());
            while rest < below.end {
                let first = self.text(rest)[behind];
                let same = self.order[rest..below.end]
                    .partition_point(|pattern| chars(&self.pool, &self.patterns[*pattern as usize])[behind] == first);
                open.push((self.push_node(first), rest..rest + same, behind));
                rest += same;
            }
            self.adopt(node, children..number(self.nodes.len()));
        }
        ToolIndex { pool: self.pool, nodes: self.nodes, firsts: self.firsts, order: self.order }
    }

    /// Gives a node its label and the patterns that end in it; returns how many characters are behind then.
    fn fill(&mut self, node: u32, below: &Range<usize>, behind: usize) -> usize {
        let (first, last) = (self.text(below.start), self.text(below.end - 1));
        // Sorted, so what the outermost two share all between them share.
        let shared = first[behind..].iter().zip(&last[behind..]).take_while(|(a, b)| a == b).count();
        let end = behind + shared;
        let ending = self.order[below.clone()]
            .partition_point(|pattern| chars(&self.pool, &self.patterns[*pattern as usize]).len() == end);
        let start = self.patterns[self.order[below.start] as usize].start;
        self.nodes[node as usize].label = start + number(behind)..start + number(end);
        self.nodes[node as usize].accepts = number(below.start)..number(below.start + ending);
        end
    }

    fn adopt(&mut self, node: u32, children: Range<u32>) {
        let with = |first| children.clone().find(|child| self.firsts[*child as usize] == first);
        let (star, any) = (with('*'), with('?'));
        let node = &mut self.nodes[node as usize];
        (node.children, node.star, node.any) = (children, star, any);
    }

    fn push_node(&mut self, first: char) -> u32 {
        self.firsts.push(first);
        self.nodes.push(Node { label: 0..0, children: 0..0, star: None, any: None, accepts: 0..0 });
        number(self.nodes.len() - 1)
    }

    fn text(&self, place: usize) -> &[char] {
        chars(&self.pool, &self.patterns[self.order[place] as usize])
    }
}

fn chars<'a>(pool: &'a [char], range: &Range<u32>) -> &'a [char] {
    &pool[range.start as usize..range.end as usize]
}

fn number(count: usize) -> u32 {
    u32::try_from(count).expect("an index holds fewer than 2^32 characters of patterns")
}

/// Appends a pattern with one spelling for what matches alike: a run of `*` as one, and `?` before `*`.
fn normalise(pattern: &str, pool: &mut Vec<char>) {
    let mut star = false;
    for char in pattern.chars() {
        match char {
            '*' => star = true,
            '?' => pool.push('?'),
            literal => {
                if std::mem::take(&mut star) {
                    pool.push('*');
                }
                pool.push(literal);
            }
        }
    }
    if star {
        pool.push('*');
    }
}
