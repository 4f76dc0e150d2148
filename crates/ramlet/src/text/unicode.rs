//! The default tokenizer: words of all scripts in a normal form ([`NormalForm`]), and characters other than letters inside words.
//!
//! The rules, each with a test below. A *main* token is in texts and queries, a *further* one in texts only: what is asked for in the one way is found where
//! it is written in the other. Places count runs of letters and digits, and each run that is no main token is a further one at its place, so that whatever finds a
//! text by the runs in it finds it here.
//!
//! | text | query for it | why |
//! |---|---|---|
//! | `wi-fi`, `e-mail`, `covid-19`: two parts, one of them of one or two characters | `wifi` | one word |
//! | `open-source`: two longer parts | `open`, `source`; texts have `opensource` too | two words, at times one |
//! | `state-of-the-art`, `2024-01-15`, paths, addresses of pages and of mail | the parts | |
//! | `don't`, `O'Brien` | `dont`, `obrien` | |
//! | `John's` | `john` | the ending counts for nothing |
//! | `l'homme`, `d'art`: an article before a vowel or h | `l`, `homme` | two words |
//! | `U.S.A.`: letters with full stops | `usa` | |
//! | `C++`, `C#`, `A+`; `.NET` | `c++`, `c#`, `a+`; `.net` | |
//! | `node.js` | `node`, `js`; texts have `.js` too | |
//! | `R&D`, `AT&T` | `r&d`, `at&t` | |
//! | `1,000,000`, `1'000`, `1_000`, `1.000.000` | `1000000`, .. | a number is one, however it is written |
//! | `3.14`, `3,14`; `192.168.0.1` | `3.14`; `192.168.0.1` | |
//! | `v1.2.3` | `1.2.3` | a version, with and without its letter |
//! | `צה״ל`, `צה"ל`: a double mark between Hebrew letters | `צהל` | an abbreviation |
//! | `col·lecció`: a dot between two l | `collecció` | one Catalan letter |
//! | emoji | itself, without the colour of the skin | flags and joined ones are one each |

use std::ops::Range;

use super::korean;
use super::normal_form::{NormalForm, ZERO_WIDTH_JOINER, follows, is_extending, is_pictograph};
use super::revision::SPELLINGS;
use super::scripts::{by_dictionary, is_dense};

/// Which side a text is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Document,
    Query,
}

/// A token, the part of the normal form that it comes from, and its place.
pub struct Cut<'a> {
    pub text: &'a str,
    pub from: Range<usize>,
    pub place: u32,
    /// Whether it is another form of a word that counts already.
    pub is_further: bool,
}

/// What is cut at once: so much is held, and a longer word is several.
const PIECE_BYTES: usize = 4096;
/// A part of a word with a hyphen that is too short to be looked for alone.
const SHORT_CHARS: usize = 2;
const GROUP_DIGITS: usize = 3;
/// Articles and other small words that lose their vowel before another one.
const ELIDED: [&str; 9] = ["l", "d", "j", "m", "t", "s", "n", "c", "qu"];

/// Shows `each` the pieces of a text: no white space is in them, and no more than [`PIECE_BYTES`].
pub fn pieces<'t>(text: &'t str, each: &mut dyn FnMut(&'t str)) {
    for mut run in text.split_whitespace() {
        while run.len() > PIECE_BYTES {
            let (piece, rest) = run.split_at(end_of_piece(run));
            each(piece);
            run = rest;
        }
        each(run);
    }
}

/// After the last sign, or else between two letters.
fn end_of_piece(run: &str) -> usize {
    let (mut any, mut letter, mut sign) = (0, 0, 0);
    let mut before = 'a';
    for (at, c) in run.char_indices().take_while(|(at, _)| *at <= PIECE_BYTES) {
        any = at;
        if !follows(c) {
            letter = at;
            if !before.is_alphanumeric() {
                sign = at;
            }
        }
        before = c;
    }
    let ends = [sign, letter, any];
    ends.into_iter().find(|at| *at > 0).unwrap_or(run.len())
}

/// A part of a piece.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    kind: Kind,
    start: u32,
    end: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Letters and digits.
    Word,
    Digits,
    Hangul,
    /// Of a script without spaces.
    Dense,
    Emoji,
    /// Anything else: one character.
    Sign(char),
}

/// Cuts pieces of a text, one after another.
pub struct Cutter {
    side: Side,
    /// Endings of names stand behind an apostrophe, as in Turkish.
    has_endings: bool,
    /// Whether the rules are those from before [`SPELLINGS`].
    is_old: bool,
    /// The place of the run that is next.
    place: u32,
    runs: Vec<Run>,
    joined: String,
}

impl Cutter {
    /// By the rules of a revision of the analysis.
    pub fn new(side: Side, has_endings: bool, revision: u32) -> Cutter {
        Cutter {
            side,
            has_endings,
            is_old: revision < SPELLINGS,
            place: 0,
            runs: Vec::new(),
            joined: String::new(),
        }
    }

    /// Shows `each` the tokens of a piece.
    pub fn cut(&mut self, piece: &NormalForm, each: &mut dyn FnMut(Cut<'_>)) {
        let mut runs = std::mem::take(&mut self.runs);
        runs.clear();
        split(&piece.text, &mut runs, self.is_old);
        let mut rules = Rules {
            text: &piece.text,
            runs: &runs,
            cutter: self,
            each,
        };
        let mut at = 0;
        while at < runs.len() {
            at = rules.next(at);
        }
        self.runs = runs;
    }
}

fn split(text: &str, runs: &mut Vec<Run>, is_old: bool) {
    for (at, c) in text.char_indices() {
        let end = at + c.len_utf8();
        let kind = match new_sign(c).filter(|_| !is_old) {
            Some(sign) => Kind::Sign(sign),
            None => kind_of(c),
        };
        if let Some(last) = runs.last_mut().filter(|last| last.end as usize == at)
            && goes_on(&text[last.start as usize..at], last, kind, c)
        {
            last.end = end as u32;
            if last.kind == Kind::Digits && kind == Kind::Word {
                last.kind = Kind::Word;
            }
            continue;
        }
        runs.push(Run {
            kind,
            start: at as u32,
            end: end as u32,
        });
    }
}

fn kind_of(c: char) -> Kind {
    match c {
        '0'..='9' => Kind::Digits,
        c if c.is_ascii_alphabetic() => Kind::Word,
        c if c.is_ascii() => Kind::Sign(c),
        c if is_dense(c) => Kind::Dense,
        '\u{ac00}'..='\u{d7a3}' => Kind::Hangul,
        // An apostrophe, by its use.
        '\u{2bc}' | '\u{2019}' | '\u{2018}' => Kind::Sign('\''),
        '\u{2010}' | '\u{2011}' => Kind::Sign('-'),
        c if is_pictograph(c) || is_flag_letter(c) => Kind::Emoji,
        c if c.is_alphanumeric() => Kind::Word,
        c => Kind::Sign(c),
    }
}

/// Signs that revision [`SPELLINGS`] knows: the grave accent and the Hawaiian and Hebrew apostrophes; the Hebrew double mark.
fn new_sign(c: char) -> Option<char> {
    match c {
        '`' | '\u{2bb}' | '\u{5f3}' => Some('\''),
        '\u{5f4}' | '\u{201d}' => Some('"'),
        _ => None,
    }
}

/// Whether a run goes on with a character.
fn goes_on(run: &str, last: &Run, kind: Kind, c: char) -> bool {
    if is_extending(c) || c == ZERO_WIDTH_JOINER {
        return !matches!(last.kind, Kind::Sign(_));
    }
    match (last.kind, kind) {
        (Kind::Word | Kind::Digits, Kind::Word | Kind::Digits) => true,
        (Kind::Hangul, Kind::Hangul) | (Kind::Dense, Kind::Dense) => true,
        (Kind::Emoji, Kind::Emoji) => {
            let is_half = |c| is_flag_letter(c) && run.chars().count() == 1;
            run.ends_with(ZERO_WIDTH_JOINER) || is_flag_letter(c) && run.chars().all(is_half)
        }
        (Kind::Emoji, _) => is_skin(c),
        _ => false,
    }
}

fn is_flag_letter(c: char) -> bool {
    matches!(c, '\u{1f1e6}'..='\u{1f1ff}')
}

fn is_skin(c: char) -> bool {
    matches!(c, '\u{1f3fb}'..='\u{1f3ff}')
}

/// The rules, at work on one piece.
struct Rules<'a> {
    text: &'a str,
    runs: &'a [Run],
    cutter: &'a mut Cutter,
    each: &'a mut dyn FnMut(Cut<'_>),
}

impl<'a> Rules<'a> {
    /// Takes what begins with a run; where the next begins.
    fn next(&mut self, at: usize) -> usize {
        let run = self.runs[at];
        match run.kind {
            Kind::Sign('.') if self.is_free(at) && self.is_letters(at + 1) => self.dotted(at),
            Kind::Sign(_) => at + 1,
            Kind::Emoji => self.emoji(at),
            Kind::Dense => self.dense(at),
            Kind::Hangul => self.hangul(at),
            Kind::Digits => self.number(at).unwrap_or_else(|| self.word(at)),
            Kind::Word => self.word(at),
        }
    }

    fn word(&mut self, at: usize) -> usize {
        self.initials(at)
            .or_else(|| self.ampersand(at))
            .or_else(|| self.apostrophe(at))
            .or_else(|| self.hyphen(at))
            .or_else(|| self.signs(at))
            .or_else(|| self.version(at))
            .or_else(|| self.one_letter(at))
            .unwrap_or_else(|| self.plain(at))
    }

    fn plain(&mut self, at: usize) -> usize {
        self.main(self.str(at), at..at + 1);
        let is_ending = at >= 2 && self.is_sign(at - 1, '.') && self.is_word(at - 2);
        if is_ending && self.is_letters(at) {
            self.further_joined(&[".", self.str(at)], at..at + 1);
        }
        self.pass(1);
        at + 1
    }

    /// One token of several runs with a sign between two, and each of the runs.
    fn compound(&mut self, parts: &[&str], runs: Range<usize>) {
        self.main_joined(parts, runs.clone());
        self.further_each(runs);
    }

    /// The runs at every second place, each a further token.
    fn further_each(&mut self, runs: Range<usize>) {
        for at in runs.step_by(2) {
            self.further(self.str(at), at..at + 1);
            self.pass(1);
        }
    }

    /// `.net`
    fn dotted(&mut self, at: usize) -> usize {
        self.main_joined(&[".", self.str(at + 1)], at..at + 2);
        self.further(self.str(at + 1), at + 1..at + 2);
        self.pass(1);
        at + 2
    }

    /// `U.S.A.`
    fn initials(&mut self, at: usize) -> Option<usize> {
        let is_initial = |at: usize| self.is_letters(at) && self.chars(at) == 1;
        let mut end = at + 1;
        while is_initial(at) && self.is_sign(end, '.') && is_initial(end + 1) {
            end += 2;
        }
        // A word, of which the first letter isn't one of them.
        if end == at + 1 {
            return None;
        }
        let letters: Vec<&str> = (at..end).step_by(2).map(|at| self.str(at)).collect();
        self.compound(&letters, at..end);
        Some(end)
    }

    /// `R&D`
    fn ampersand(&mut self, at: usize) -> Option<usize> {
        let is_short = |at: usize| self.is_word(at) && self.chars(at) <= SHORT_CHARS;
        if !(is_short(at) && self.is_sign(at + 1, '&') && is_short(at + 2)) {
            return None;
        }
        self.compound(&[self.str(at), "&", self.str(at + 2)], at..at + 3);
        Some(at + 3)
    }

    fn apostrophe(&mut self, at: usize) -> Option<usize> {
        let follows = |at: usize| self.is_sign(at, '\'') && self.is_letters(at + 1);
        if !(self.is_letters(at) && follows(at + 1)) {
            return None;
        }
        if ELIDED.contains(&self.str(at)) && self.begins_open(at + 2) {
            self.main(self.str(at), at..at + 1);
            self.pass(1);
            return Some(at + 2);
        }
        let mut end = at + 1;
        while follows(end) {
            end += 2;
        }
        let last = match self.str(end - 1) {
            _ if self.cutter.has_endings => at + 1,
            "s" => end - 2,
            _ => end,
        };
        let parts: Vec<&str> = (at..last).step_by(2).map(|at| self.str(at)).collect();
        self.main_joined(&parts, at..last);
        // One run alone is the main token.
        let first = if parts.len() == 1 { at + 2 } else { at };
        self.pass(u32::from(first > at));
        self.further_each(first..end);
        Some(end)
    }

    /// Whether a word of two letters and more begins with a vowel or an h.
    fn begins_open(&self, at: usize) -> bool {
        let open = |c: char| "aeiouyhàâäáãæèéêëìíîïòóôöœùúûü".contains(c);
        self.chars(at) > 1 && self.str(at).chars().next().is_some_and(open)
    }

    fn hyphen(&mut self, at: usize) -> Option<usize> {
        let follows = |at: usize| self.is_sign(at, '-') && self.is_word(at + 1);
        let is_behind = at >= 2 && self.is_sign(at - 1, '-') && self.is_word(at - 2);
        if !follows(at + 1) || follows(at + 3) || is_behind {
            return None;
        }
        let is_number = |at: usize| self.runs[at].kind == Kind::Digits;
        if is_number(at) && is_number(at + 2) {
            return None;
        }
        let parts = [self.str(at), self.str(at + 2)];
        if self.chars(at) <= SHORT_CHARS || self.chars(at + 2) <= SHORT_CHARS {
            self.compound(&parts, at..at + 3);
            return Some(at + 3);
        }
        self.main(parts[0], at..at + 1);
        self.further_joined(&parts, at..at + 3);
        self.pass(1);
        Some(at + 2)
    }

    /// `c++`, `c#`, `a+`
    fn signs(&mut self, at: usize) -> Option<usize> {
        if !self.is_letters(at) {
            return None;
        }
        let (sign, end) = match () {
            () if self.is_sign(at + 1, '+') && self.is_sign(at + 2, '+') => ("++", at + 3),
            () if self.is_sign(at + 1, '+') && !self.is_word(at + 2) => ("+", at + 2),
            () if self.is_sign(at + 1, '#') && !self.is_letters(at + 2) => ("#", at + 2),
            () => return None,
        };
        self.main_joined(&[self.str(at), sign], at..end);
        self.further(self.str(at), at..at + 1);
        self.pass(1);
        Some(end)
    }

    /// `v1.2.3`: the number, as without the letter.
    fn version(&mut self, at: usize) -> Option<usize> {
        let first = self.str(at).strip_prefix('v')?;
        let is_number = |at: usize| self.runs.get(at).is_some_and(|run| run.kind == Kind::Digits);
        let mut end = at + 1;
        while self.is_sign(end, '.') && is_number(end + 1) {
            end += 2;
        }
        let is_whole = !first.is_empty() && first.bytes().all(|b| b.is_ascii_digit());
        if self.cutter.is_old || !is_whole || end == at + 1 {
            return None;
        }
        let mut parts = vec![first];
        for part in (at + 2..end).step_by(2) {
            parts.extend([".", self.str(part)]);
        }
        self.compound(&parts, at..end);
        Some(end)
    }

    /// Two runs with a sign between them that are one word: `צה״ל`, `col·lecció`.
    fn one_letter(&mut self, at: usize) -> Option<usize> {
        let (first, second) = (self.str(at), self.runs.get(at + 2).map(|_| self.str(at + 2))?);
        let is_hebrew = |c: Option<char>| c.is_some_and(|c| matches!(c, '\u{5d0}'..='\u{5ea}'));
        let is_one = match self.runs[at + 1].kind {
            Kind::Sign('"') => is_hebrew(first.chars().next_back()) && is_hebrew(second.chars().next()),
            Kind::Sign('·') => first.ends_with('l') && second.starts_with('l'),
            _ => false,
        };
        if self.cutter.is_old || !is_one || !self.is_word(at + 2) {
            return None;
        }
        self.compound(&[first, second], at..at + 3);
        Some(at + 3)
    }

    /// A number with separators; `None`: it has none.
    fn number(&mut self, at: usize) -> Option<usize> {
        let sign = |at: usize| match self.runs.get(at)?.kind {
            Kind::Sign(sign @ ('.' | ',' | '\'' | '_')) => Some(sign),
            _ => None,
        };
        let is_number = |at: usize| self.runs.get(at).is_some_and(|run| run.kind == Kind::Digits);
        let (mut end, mut signs) = (at + 1, Vec::new());
        while let Some(sign) = sign(end).filter(|_| is_number(end + 1)) {
            signs.push(sign);
            end += 2;
        }
        let first = *signs.first()?;
        let parts: Vec<&str> = (at..end).step_by(2).map(|at| self.str(at)).collect();
        let is_group = |(sign, part): &(&char, &&str)| **sign == first && part.len() == GROUP_DIGITS;
        let groups = match parts[0].len() <= GROUP_DIGITS {
            true => signs.iter().zip(&parts[1..]).take_while(is_group).count(),
            false => 0,
        };
        // With full stops one group may be a fraction.
        let groups = if first == '.' && groups < 2 { 0 } else { groups };
        let rest = &signs[groups..];
        let is_fraction = |sign: &char| matches!(sign, '.' | ',') && (groups == 0 || *sign != first);
        match rest {
            [] => self.compound(&parts, at..end),
            [sign] if is_fraction(sign) => {
                let (whole, fraction) = (parts[..=groups].concat(), parts[groups + 1]);
                self.compound(&[&whole, ".", fraction], at..end);
            }
            _ if groups == 0 && signs.iter().all(|sign| *sign == '.') => {
                self.compound(&[&parts.join(".")], at..end);
            }
            _ => {
                for at in (at..end).step_by(2) {
                    self.main(self.str(at), at..at + 1);
                    self.pass(1);
                }
            }
        }
        Some(end)
    }

    fn emoji(&mut self, at: usize) -> usize {
        let plain: String = self.str(at).chars().filter(|c| !is_skin(*c)).collect();
        self.main(plain.trim_end_matches(ZERO_WIDTH_JOINER), at..at + 1);
        self.pass(1);
        at + 1
    }

    fn dense(&mut self, at: usize) -> usize {
        let (text, run) = (self.text, self.str(at));
        by_dictionary(run, &mut |word| {
            let start = word.as_ptr().addr() - text.as_ptr().addr();
            self.emit(word, start..start + word.len(), false);
            self.pass(1);
        });
        at + 1
    }

    fn hangul(&mut self, at: usize) -> usize {
        let word = self.str(at);
        let is_behind = at > 0 && !matches!(self.runs[at - 1].kind, Kind::Sign(_) | Kind::Emoji);
        if is_behind && korean::is_particle(word) {
            return at + 1;
        }
        self.main(korean::stem(word), at..at + 1);
        if let Some(short) = korean::short_stem(word) {
            self.further(short, at..at + 1);
        }
        self.pass(1);
        at + 1
    }

    fn str(&self, at: usize) -> &'a str {
        let run = self.runs[at];
        &self.text[run.start as usize..run.end as usize]
    }

    fn chars(&self, at: usize) -> usize {
        self.str(at).chars().count()
    }

    fn is_word(&self, at: usize) -> bool {
        let kind = self.runs.get(at).map(|run| run.kind);
        matches!(kind, Some(Kind::Word | Kind::Digits))
    }

    /// Whether there is a word that begins with a letter.
    fn is_letters(&self, at: usize) -> bool {
        self.is_word(at) && !self.str(at).starts_with(|c: char| c.is_ascii_digit())
    }

    fn is_sign(&self, at: usize, sign: char) -> bool {
        self.runs.get(at).is_some_and(|run| run.kind == Kind::Sign(sign))
    }

    /// Whether a word could begin here: behind nothing, or behind another sign.
    fn is_free(&self, at: usize) -> bool {
        at == 0 || matches!(self.runs[at - 1].kind, Kind::Sign(sign) if sign != '.')
    }

    fn main(&mut self, text: &str, runs: Range<usize>) {
        self.emit(text, self.range(runs), false);
    }

    fn main_joined(&mut self, parts: &[&str], runs: Range<usize>) {
        self.tell_joined(parts, runs, false);
    }

    fn tell_joined(&mut self, parts: &[&str], runs: Range<usize>, is_further: bool) {
        let mut joined = std::mem::take(&mut self.cutter.joined);
        joined.clear();
        joined.extend(parts.iter().copied());
        self.emit(&joined, self.range(runs), is_further);
        self.cutter.joined = joined;
    }

    fn further(&mut self, text: &str, runs: Range<usize>) {
        if self.cutter.side == Side::Document {
            self.emit(text, self.range(runs), true);
        }
    }

    fn further_joined(&mut self, parts: &[&str], runs: Range<usize>) {
        if self.cutter.side == Side::Document {
            self.tell_joined(parts, runs, true);
        }
    }

    fn range(&self, runs: Range<usize>) -> Range<usize> {
        self.runs[runs.start].start as usize..self.runs[runs.end - 1].end as usize
    }

    /// So many runs are behind.
    fn pass(&mut self, runs: u32) {
        self.cutter.place = self.cutter.place.saturating_add(runs);
    }

    fn emit(&mut self, text: &str, from: Range<usize>, is_further: bool) {
        let place = self.cutter.place;
        (self.each)(Cut {
            text,
            from,
            place,
            is_further,
        });
    }
}

#[cfg(test)]
#[path = "unicode_tests.rs"]
mod tests;
