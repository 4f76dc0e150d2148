//! `ramlet bench search`: recall against speed, effort by effort, of any server with the API.
//!
//! What asks is `load::run` with requests rendered ahead, over REST or gRPC; everything around it goes over REST.

mod args;
mod export;
mod running;
mod search_report;

pub use args::{Effort, SearchArgs};

use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::Progress;
use crate::data::Data;
use crate::host::server::{check_process, used_by};
use crate::ram::Placement;
use crate::results::output_args::check_directory;
use crate::traffic::api::{ANSWER_TIMEOUT, Api};
use crate::traffic::client::Client;
use crate::traffic::fill::fill;
use crate::traffic::http::Target;
use crate::traffic::load::Load;
use crate::traffic::measure::{measure, warm_up};
use crate::traffic::requests::Requests;
use crate::traffic::setting::Setting;
use crate::traffic::wire::Wire;
use running::Running;
use search_report::Report;

/// The temporary collection.
const COLLECTION: &str = "ramlet-bench-search";

/// What is asked, and what is true.
struct Task {
    name: String,
    collection: String,
    is_temporary: bool,
    queries: Vec<Vec<f32>>,
    truth: Vec<Vec<u64>>,
    about: serde_json::Value,
}

/// Runs all of it; prints the table.
pub fn run(args: &SearchArgs) -> Result<()> {
    args.output.check()?;
    if let Some(directory) = &args.export {
        check_directory("--export", directory)?;
    }
    if let Some(pid) = args.pid {
        check_process(pid)?;
    }
    let target = Target::parse(&args.url, args.api_key.as_deref()).map_err(anyhow::Error::msg)?;
    let mut api = Api::new(target.clone());
    if !api.is_ready() {
        bail!("no server answers at {}; --url names another", target.url());
    }
    let progress = Progress::new((args.repeats * args.ef.len() * args.rate.len().max(1)) as u64);
    progress.say(match (&args.data.data, &args.collection) {
        (Some(path), _) => format!("reading {}", path.display()),
        (None, Some(name)) => format!("asking '{name}' for points to search for"),
        (None, None) => "looking for the made-up set".to_owned(),
    });
    let (wire, asked) = wire_of(args, &target)?;
    let task = prepare(args, &mut api, &progress)?;
    let mut report = Report::new(args, wire, task.name.clone(), task.about.clone());
    report.server = api.about();
    let measured = sweep(args, (wire, &asked), &task, &mut report, &progress);
    let dropped = match task.is_temporary {
        true => api.drop_collection(&task.collection),
        false => Ok(()),
    };
    drop(progress);
    // Where the server went away meanwhile, what was measured before counts.
    if measured.is_ok() || !report.runs.is_empty() {
        report.finish()?;
    }
    measured?;
    dropped.with_context(|| format!("the collection {} stays there", task.collection))
}

/// How searches are asked, and where. Fails when nothing listens there: before data is loaded.
fn wire_of(args: &SearchArgs, target: &Target) -> Result<(Wire, Target)> {
    let asked = match args.grpc.as_deref() {
        None => return Ok((Wire::Rest, target.clone())),
        Some("") => target
            .next_port()
            .context("there is no port after that of --url")?,
        Some(url) => Target::parse(url, args.api_key.as_deref()).map_err(anyhow::Error::msg)?,
    };
    match Client::connect(Wire::Grpc, &asked, ANSWER_TIMEOUT) {
        Ok(_) => Ok((Wire::Grpc, asked)),
        Err(error) => bail!(
            "no server answers at {} ({error}); --grpc URL names another",
            asked.url()
        ),
    }
}

fn prepare(args: &SearchArgs, api: &mut Api, progress: &Progress) -> Result<Task> {
    let data_is_given = args.data.data.is_some() || args.collection.is_none();
    match (&args.collection, data_is_given) {
        (Some(name), false) => of_running(args, api, name, progress),
        (collection, _) => {
            let data = Data::open(&args.data, progress)?;
            let name = match collection {
                Some(name) => name.clone(),
                None => load_temporary(args, api, &data, progress)?,
            };
            Ok(Task {
                name: data.name.clone(),
                collection: name,
                is_temporary: collection.is_none(),
                about: data.describe(),
                queries: data.queries,
                truth: data.truth,
            })
        }
    }
}

fn of_running(args: &SearchArgs, api: &mut Api, name: &str, progress: &Progress) -> Result<Task> {
    let setting = Setting {
        collection: name.to_string(),
        using: args.using.clone(),
        k: args.data.k,
        old_route: args.old_route,
        ..Setting::default()
    };
    let Running {
        queries,
        truth,
        points,
        dims,
        distance,
    } = running::ask(api, &setting, args.data.queries, progress)?;
    if queries.is_empty() {
        bail!("collection '{name}' has no points to ask for");
    }
    Ok(Task {
        name: name.to_string(),
        collection: name.to_string(),
        is_temporary: false,
        about: serde_json::json!({
            "name": name, "points": points, "dims": dims, "distance": distance, "queries": queries.len(), "k": args.data.k,
            "queries_are": "points of the collection, themselves left out of the truth",
        }),
        queries,
        truth,
    })
}

fn load_temporary(args: &SearchArgs, api: &mut Api, data: &Data, progress: &Progress) -> Result<String> {
    if api.collection(COLLECTION, None)?.is_some() {
        api.drop_collection(COLLECTION)?;
    }
    api.create(
        COLLECTION,
        &Placement::Auto.settings(data.dims, data.distance, false, args.config.as_ref()),
    )?;
    progress.say(format!("loading {} vectors of {}", data.points, data.name));
    let mut base = data.base()?;
    let filled = fill(
        api.target(),
        COLLECTION,
        base.as_mut(),
        data.points,
        &mut |done| {
            progress.show(format!("loading: {done} of {}", data.points));
        },
    );
    let green = filled.and_then(|_| {
        api.wait_until_green(COLLECTION, Duration::from_secs(24 * 3600), &mut |state| {
            progress.show(format!("{}: building the index", state.status));
        })
    });
    if let Err(error) = green {
        let _ = api.drop_collection(COLLECTION);
        return Err(error);
    }
    Ok(COLLECTION.to_string())
}

/// Every effort at every rate, in rounds.
fn sweep(
    args: &SearchArgs,
    (wire, target): (Wire, &Target),
    task: &Task,
    report: &mut Report<'_>,
    progress: &Progress,
) -> Result<()> {
    // A point that is a query finds itself, and is left out of the truth.
    let itself = usize::from(args.collection.is_some() && args.data.data.is_none());
    let rates: Vec<Option<f64>> = match args.rate.as_slice() {
        [] => vec![None],
        rates => rates.iter().copied().map(Some).collect(),
    };
    for round in 0..args.repeats {
        for effort in &args.ef {
            let setting = Setting {
                collection: task.collection.clone(),
                using: args.using.clone(),
                k: args.data.k + itself,
                ef: match effort {
                    Effort::Ef(ef) => Some(*ef),
                    _ => None,
                },
                exact: *effort == Effort::Exact,
                params: args.params.clone(),
                old_route: args.old_route,
            };
            let queries = task.queries.iter().map(Vec::as_slice);
            let requests = Requests::render_for(wire, target, &setting, queries)?;
            for &rate in &rates {
                progress.say(format!(
                    "{}, round {} of {}",
                    setting.name(),
                    round + 1,
                    args.repeats
                ));
                one(args, target, task, &setting, &requests, rate, report)?;
                progress.step();
            }
        }
    }
    Ok(())
}

fn one(
    args: &SearchArgs,
    target: &Target,
    task: &Task,
    setting: &Setting,
    requests: &Requests,
    rate: Option<f64>,
    report: &mut Report<'_>,
) -> Result<()> {
    let used = || args.pid.map(|pid| used_by(&[pid]));
    let warm = Load::to_warm_up(args.connections, rate, args.warm_up, ANSWER_TIMEOUT);
    warm_up(target, requests, &warm, &used);
    let load = Load {
        span: Duration::from_secs_f64(args.seconds),
        requests_min: requests.len() as u64,
        span_max: Duration::from_secs_f64(args.seconds_max.max(args.seconds)),
        ..warm
    };
    let (mut figures, outcome) = measure(target, requests, &task.truth, &load, &used);
    if figures.answered == 0 {
        let first = figures.errors.keys().next().cloned();
        bail!(
            "no query was answered with {}: {}",
            setting.name(),
            first.unwrap_or_default()
        );
    }
    figures.setting = setting.name();
    if let Some(directory) = &args.export {
        std::fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
        let mut name = setting.name().replace(' ', "-");
        if let Some(rate) = rate {
            name.push_str(&format!("-at-{rate}"));
        }
        export::write_ibin(
            &directory.join(format!("{name}.ibin")),
            &outcome.found,
            args.data.k,
        )?;
        export::write_times(&directory.join(format!("{name}.times.npy")), &outcome.first_ns)?;
    }
    report.runs.push(figures);
    Ok(())
}
