//! `ramlet import --from`: collections of another server of the API, over the network.
//!
//! A collection is created with the other one's settings, gets its payload indexes, then its points, scrolled in the order of
//! their ids and sent on as they come, then its aliases. After every acknowledged page a file says where to go on.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc::sync_channel;
use std::thread;

use anyhow::{Context, Error, Result, anyhow, bail};
use indicatif::HumanCount;
use ramlet_bench::api::collection_path;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use ureq::http::{Method, Uri};

use super::api::{Api, CollectionState, Refusal, ServerGone, TooLong};
use super::copied_settings::{add_own, check_same, settings, without_nulls};
use super::interrupt::{self, Interrupted};
use super::progress::Progress;
use super::resume::Resume;
use crate::args::ImportArgs;
use crate::output::{self, note};

/// About the text of a page: neither server holds more of it at once than a few.
const PAGE_BYTES: usize = 512 << 10;
const PAGE_POINTS_MAX: usize = 2_000;
const PAGE_POINTS_BEGIN: usize = 32;
/// Most of a page that is read: points may be longer than those before them.
const PAGE_BYTES_MAX: u64 = 16 << 20;
/// And of a page of one point: it is this program's memory, not a server's.
const POINT_BYTES_MAX: u64 = 64 << 20;

/// Both ends of an import.
struct Servers {
    from: Api,
    to: Api,
}

/// Runs an import from a server to its end; prints what it did.
pub fn run(args: &ImportArgs, from: &str) -> Result<()> {
    let from_key = args.from_api_key.clone().filter(|key| !key.is_empty());
    let from_key = from_key.or_else(|| args.api_key.clone());
    let servers = Servers {
        from: Api::new(from, from_key, 2)?,
        to: Api::new(&args.url, args.api_key.clone(), 2)?,
    };
    servers.from.check_reachable()?;
    servers.to.check_reachable()?;
    servers.check_apart(from, &args.url)?;
    let names = match &args.collection {
        Some(name) => vec![name.clone()],
        None => collections(&servers.from)?,
    };
    if names.is_empty() {
        output::line(format_args!("the server at {from} has no collections"))?;
    }
    let mut resume = Resume::open(&args.state, from, &args.url)?;
    let mut failures = Failures {
        of: names.len(),
        names: Vec::new(),
    };
    for name in &names {
        let copied = servers.whole(name, args, &mut resume);
        failures.hear(name, copied)?;
    }
    for name in &names {
        if !failures.names.contains(name) {
            failures.hear(name, servers.finish(name, args.wait))?;
        }
    }
    failures.end()?;
    resume.finish()
}

/// Collections that aren't in: one that fails doesn't keep the others from being tried.
struct Failures {
    /// Collections in all.
    of: usize,
    names: Vec<String>,
}

impl Failures {
    /// Tells and remembers a failure; returns it when the next collections would fail of the same.
    fn hear(&mut self, name: &str, outcome: Result<()>) -> Result<()> {
        let Err(error) = outcome else {
            return Ok(());
        };
        let error = error.context(format!(
            "collection '{name}'; run the same command again to continue"
        ));
        if self.of == 1 || error.is::<ServerGone>() || error.is::<Interrupted>() {
            return Err(error);
        }
        note!("ramlet: {error:#}");
        self.names.push(name.to_string());
        Ok(())
    }

    fn end(&self) -> Result<()> {
        if self.names.is_empty() {
            return Ok(());
        }
        bail!(
            "{} of {} collections failed: '{}'; run the same command again to continue",
            self.names.len(),
            self.of,
            self.names.join("', '")
        )
    }
}

/// Names of all collections of a server.
fn collections(server: &Api) -> Result<Vec<String>> {
    let answer = server
        .get("/collections")?
        .context("it has no list of collections")?;
    let list = answer["collections"]
        .as_array()
        .context("no list of collections")?;
    Ok(list
        .iter()
        .filter_map(|c| Some(c["name"].as_str()?.to_string()))
        .collect())
}

impl Servers {
    /// A server that is copied onto itself would be read and written at once.
    fn check_apart(&self, from: &str, to: &str) -> Result<()> {
        let same_address = addresses(from)
            .iter()
            .any(|address| addresses(to).contains(address));
        let same_identity = || {
            self.from
                .identity()
                .is_some_and(|id| Some(id) == self.to.identity())
        };
        if same_address || same_identity() {
            bail!(
                "--from {from} and --url {to} are the same server: there is nothing to copy; --url names the one to copy to"
            );
        }
        Ok(())
    }

    /// A collection, unless it is in already.
    fn whole(&self, name: &str, args: &ImportArgs, resume: &mut Resume) -> Result<()> {
        if resume.is_done(name) && self.to.collection(name)?.is_some() {
            super::check_holds(&self.to, name, resume.points(name), resume.path(), "")?;
            let points = HumanCount(resume.points(name));
            output::line(format_args!(
                "'{name}' is complete, with {points} points: skipped"
            ))?;
            return Ok(());
        }
        let is_new = self.to.collection(name)?.is_none();
        let copied = self.collection(name, args, resume);
        if copied.is_err() && is_new {
            self.undo(name, resume)?;
        }
        copied?;
        resume.done(name)
    }

    /// Removes a collection that was made for nothing.
    fn undo(&self, name: &str, resume: &mut Resume) -> Result<()> {
        let is_empty = resume.points(name) == 0 && self.to.count(name).is_ok_and(|points| points == 0);
        if is_empty && self.to.delete_collection(name).is_ok() {
            note!("removed the empty collection '{name}'");
            return resume.forget(name);
        }
        Ok(())
    }

    /// What waits until all collections are there.
    fn finish(&self, name: &str, wait: bool) -> Result<()> {
        self.aliases(name)?;
        match wait {
            true => super::wait_until_green(&self.to, name),
            false => Ok(()),
        }
    }

    fn collection(&self, name: &str, args: &ImportArgs, resume: &mut Resume) -> Result<()> {
        let there = self.from.collection(name)?;
        let source = there.ok_or_else(|| anyhow!("the other server has none of this name"))?;
        match self.to.collection(name)? {
            None => {
                // First, so that an end in between doesn't leave a place in a collection without points.
                begin_again(name, resume)?;
                self.create(name, &source)?;
            }
            Some(ours) => {
                check_same(name, &source.config, &ours.config)?;
                super::check_holds(&self.to, name, resume.points(name), resume.path(), "")?;
            }
        }
        self.indexes(name, &source)?;
        let progress = Progress::new(source.points_count.unwrap_or(0));
        let sent = self.points(name, args.batch, resume, &progress);
        progress.finish();
        let sent = sent?;
        self.strict_mode(name, &source)?;
        let (theirs, ours) = (self.from.count(name)?, self.to.count(name)?);
        output::line(format_args!(
            "imported {} points into '{name}' in {:.1} s, {} points/s; it has {} now",
            HumanCount(sent),
            progress.elapsed().as_secs_f64(),
            HumanCount(progress.rate(sent)),
            HumanCount(ours),
        ))?;
        if theirs != ours {
            note!(
                "the other server has {} points: it was written to during the import, or '{name}' had points before",
                HumanCount(theirs)
            );
        }
        Ok(())
    }

    fn create(&self, name: &str, source: &CollectionState) -> Result<()> {
        let mut settings = settings(&source.config);
        add_own(&mut settings, &source.ramlet["vectors"]);
        self.to.ok(Method::PUT, &collection_path(name), &settings)?;
        note!("created collection '{name}' with the settings of the other");
        Ok(())
    }

    /// Indexes that are there stay: the same again changes nothing.
    fn indexes(&self, name: &str, source: &CollectionState) -> Result<()> {
        for (field, index) in source.payload_schema.as_object().into_iter().flatten() {
            let schema = match &index["params"] {
                Value::Null => &index["data_type"],
                params => params,
            };
            let body = json!({ "field_name": field, "field_schema": schema });
            let path = format!("{}/index?wait=true", collection_path(name));
            self.to
                .ok(Method::PUT, &path, &body)
                .with_context(|| format!("index of the field '{field}'"))?;
        }
        Ok(())
    }

    /// Limits come last: they are meant for clients, and an import may exceed them.
    fn strict_mode(&self, name: &str, source: &CollectionState) -> Result<()> {
        let strict = &source.config["strict_mode_config"];
        if strict["enabled"] != json!(true) {
            return Ok(());
        }
        let body = json!({ "strict_mode_config": without_nulls(strict) });
        self.to.ok(Method::PATCH, &collection_path(name), &body)?;
        Ok(())
    }

    fn aliases(&self, name: &str) -> Result<()> {
        let Some(answer) = self.from.get(&format!("{}/aliases", collection_path(name)))? else {
            return Ok(());
        };
        for alias in answer["aliases"].as_array().into_iter().flatten() {
            let alias = alias["alias_name"].as_str().context("an alias without a name")?;
            let create = json!({ "create_alias": { "collection_name": name, "alias_name": alias } });
            self.to
                .ok(
                    Method::POST,
                    "/collections/aliases",
                    &json!({ "actions": [create] }),
                )
                .with_context(|| format!("alias '{alias}'"))?;
        }
        Ok(())
    }

    /// Reads a page while the one before is being written. Returns how many points were acknowledged.
    fn points(
        &self,
        name: &str,
        batch: Option<usize>,
        resume: &mut Resume,
        progress: &Progress,
    ) -> Result<u64> {
        let (mut sent, before) = (0, resume.points(name));
        if before > 0 {
            note!("'{name}': continuing after {} points", HumanCount(before));
        }
        let mut scroll = Scroll::new(&self.from, name, batch, resume.offset(name));
        let (sender, pages) = sync_channel::<Result<Page>>(1);
        let read = move || {
            while let Some(page) = scroll.next() {
                let failed = page.is_err();
                // Nobody receives any more: the other side has failed, and tells why.
                if sender.send(page).is_err() || failed {
                    return;
                }
            }
        };
        let mut at_once = usize::MAX;
        thread::scope(|scope| {
            thread::Builder::new()
                .spawn_scoped(scope, read)
                .context("starting a thread to read with")?;
            for page in pages {
                interrupt::check()
                    .with_context(|| format!("{} of its points are imported", HumanCount(before + sent)))?;
                let page = page?;
                self.send(name, &page.points, &mut at_once)?;
                sent += page.points.len() as u64;
                progress.acknowledged(page.points.len() as u64);
                progress.at((before + sent, 0));
                resume.at(name, page.next.as_deref(), before + sent)?;
            }
            Ok(sent)
        })
    }

    /// In requests of at most `at_once` points, and fewer when the server has no room for as many.
    fn send(&self, name: &str, points: &[String], at_once: &mut usize) -> Result<()> {
        let mut rest = points;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(*at_once));
            let body = format!("{{\"points\":[{}]}}", now.join(","));
            match self.to.upsert(name, body.as_bytes()) {
                Ok(()) => rest = later,
                Err(Refusal::TooLarge(_)) if now.len() > 1 => *at_once = now.len() / 2,
                Err(Refusal::TooLarge(why)) => bail!("a single point is too large for the server: {why}"),
                Err(Refusal::Wrong(error) | Refusal::Final(error)) => return Err(error),
            }
        }
        // The next points may be shorter: one request more that is refused, once a page.
        *at_once = at_once.saturating_mul(2);
        Ok(())
    }
}

/// Where a URL leads. Two names of one server, or a proxy before it, are told by its identity.
fn addresses(url: &str) -> Vec<SocketAddr> {
    let Ok(uri) = url.parse::<Uri>() else {
        return Vec::new();
    };
    let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") {
        443
    } else {
        80
    });
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let found = (host, port).to_socket_addrs();
    found.map(Iterator::collect).unwrap_or_default()
}

/// Points as they are sent on, and the offset behind them, as JSON.
struct Page {
    points: Vec<String>,
    next: Option<String>,
}

/// A collection that is read page by page.
struct Scroll<'a> {
    server: &'a Api,
    path: String,
    /// Points of a page: as many as make [`PAGE_BYTES`], unless they were given.
    points: usize,
    /// Points of a page that the server is known to allow.
    points_max: usize,
    fixed: bool,
    offset: Option<String>,
    ended: bool,
    rounds: Rounds,
}

/// Notices offsets that come again, which no list of points has: of any round, within twice its pages (Brent's way to find a
/// cycle with one value remembered).
#[derive(Default)]
struct Rounds {
    pages: u64,
    seen: Option<String>,
}

impl Rounds {
    fn comes_again(&mut self, offset: &str) -> bool {
        if self.seen.as_deref() == Some(offset) {
            return true;
        }
        self.pages += 1;
        if self.pages.is_power_of_two() {
            self.seen = Some(offset.to_string());
        }
        false
    }
}

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    result: Scrolled<'a>,
}

#[derive(Deserialize)]
struct Scrolled<'a> {
    #[serde(borrow)]
    points: Vec<Record<'a>>,
    #[serde(borrow)]
    next_page_offset: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Record<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
    #[serde(borrow)]
    vector: Option<&'a RawValue>,
}

impl Record<'_> {
    fn point(&self) -> String {
        let payload = self.payload.map_or("{}", RawValue::get);
        let vector = self.vector.map_or("{}", RawValue::get);
        format!(
            "{{\"id\":{},\"vector\":{vector},\"payload\":{payload}}}",
            self.id.get()
        )
    }
}

impl<'a> Scroll<'a> {
    fn new(server: &'a Api, name: &str, batch: Option<usize>, offset: Option<String>) -> Scroll<'a> {
        Scroll {
            server,
            path: format!("{}/points/scroll", collection_path(name)),
            points: batch.unwrap_or(PAGE_POINTS_BEGIN),
            points_max: PAGE_POINTS_MAX,
            fixed: batch.is_some(),
            offset,
            ended: false,
            rounds: Rounds::default(),
        }
    }

    fn next(&mut self) -> Option<Result<Page>> {
        (!self.ended).then(|| self.page())
    }

    /// The text of a page: of fewer points than were wanted when the server refuses as many, or sends more than is read.
    fn answer(&mut self) -> Result<Vec<u8>> {
        loop {
            let offset = self.offset.as_deref().unwrap_or("null");
            let body = format!(
                "{{\"limit\":{},\"offset\":{offset},\"with_payload\":true,\"with_vector\":true}}",
                self.points
            );
            let bytes_max = match self.points {
                1 => POINT_BYTES_MAX,
                _ => PAGE_BYTES_MAX,
            };
            let asked = self
                .server
                .ask_for(Method::POST, &self.path, body.as_bytes(), bytes_max);
            match asked {
                Ok(reply) if reply.asks_for_less() && self.points > 1 => {
                    if reply.is_over_limit() {
                        self.points_max = self.points / 2;
                    }
                }
                Ok(reply) => return reply.into_body(),
                Err(error) if error.is::<TooLong>() && self.points > 1 => {}
                Err(error) => return Err(self.placed(error)),
            }
            self.points /= 2;
        }
    }

    /// Which point is too long.
    fn placed(&self, error: Error) -> Error {
        match (error.is::<TooLong>(), &self.offset) {
            (false, _) => error,
            (true, None) => error.context("the first point"),
            (true, Some(id)) => error.context(format!("the point {id}")),
        }
    }

    fn page(&mut self) -> Result<Page> {
        let answer = self.answer()?;
        let Answer { result } = serde_json::from_slice(&answer).context("a page of points")?;
        self.offset = result.next_page_offset.map(|offset| offset.get().to_string());
        self.ended = self.offset.is_none();
        if let Some(offset) = &self.offset
            && self.rounds.comes_again(offset)
        {
            bail!("the other server repeats the offset {offset} of the next page");
        }
        let count = result.points.len().max(1);
        if !self.fixed {
            // At most twice as many as before: the next points may be longer.
            let fitting = PAGE_BYTES * count / answer.len().max(1);
            self.points = fitting.clamp(1, (2 * self.points).min(self.points_max));
        }
        Ok(Page {
            points: result.points.iter().map(Record::point).collect(),
            next: self.offset.clone(),
        })
    }
}

/// Of a collection that isn't there no point is in, whatever was said before.
fn begin_again(name: &str, resume: &mut Resume) -> Result<()> {
    let before = resume.points(name);
    if before > 0 || resume.is_done(name) {
        note!(
            "'{name}' no longer exists: the {} points that {} lists as imported are sent again",
            HumanCount(before),
            resume.path().display()
        );
        resume.forget(name)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_are_noticed() {
        let pages_until = |offsets: &mut dyn Iterator<Item = u64>| {
            let mut rounds = Rounds::default();
            offsets
                .take(10_000)
                .position(|offset| rounds.comes_again(&offset.to_string()))
        };
        assert_eq!(pages_until(&mut std::iter::repeat(7)), Some(1));
        assert_eq!(pages_until(&mut [1, 2].into_iter().cycle()), Some(3));
        assert!(pages_until(&mut (0..100).chain((100..130).cycle())).is_some_and(|page| page < 300));
        assert_eq!(pages_until(&mut (0..)), None);
    }

    #[test]
    fn one_failure_does_not_end_the_others() {
        let mut failures = Failures {
            of: 2,
            names: Vec::new(),
        };
        assert!(failures.hear("a", Ok(())).is_ok() && failures.end().is_ok());
        assert!(failures.hear("b", Err(anyhow!("wrong"))).is_ok());
        let said = failures.end().unwrap_err().to_string();
        assert!(said.contains("1 of 2") && said.contains("'b'"), "{said}");
        let mut only = Failures {
            of: 1,
            names: Vec::new(),
        };
        assert!(only.hear("a", Err(anyhow!("wrong"))).is_err());
    }

    #[test]
    fn records_become_points() {
        let text = r#"{"result":{"points":[
            {"id":1,"payload":{"a":[1, 2]},"vector":[0.1,2],"shard_key":null},
            {"id":"u","payload":null,"vector":null}],"next_page_offset":"u"},"status":"ok"}"#;
        let Answer { result } = serde_json::from_str(text).unwrap();
        let points: Vec<_> = result.points.iter().map(Record::point).collect();
        assert_eq!(
            points,
            [
                r#"{"id":1,"vector":[0.1,2],"payload":{"a":[1, 2]}}"#,
                r#"{"id":"u","vector":{},"payload":{}}"#
            ]
        );
        assert_eq!(result.next_page_offset.map(RawValue::get), Some("\"u\""));
    }
}
