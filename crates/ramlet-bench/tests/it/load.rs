use std::time::Duration;

use ramlet_bench::fill::fill;
use ramlet_bench::load::{Load, run};
use ramlet_bench::requests::Requests;
use ramlet_bench::setting::Setting;

use crate::fake_server::FakeServer;
use crate::files::NumberedRows;

const LOAD: Load = Load {
    connections: 3,
    rate: None,
    span: Duration::ZERO,
    requests_min: 40,
    span_max: Duration::from_secs(60),
    timeout: Duration::from_secs(10),
};

fn requests(server: &FakeServer, count: usize) -> Requests {
    let queries: Vec<Vec<f32>> = (0..count).map(|n| vec![n as f32, 1.0]).collect();
    let setting = Setting {
        collection: "c".into(),
        k: 2,
        ..Setting::default()
    };
    Requests::render(&server.target(), &setting, queries.iter().map(Vec::as_slice)).expect("numbers")
}

/// The query's first value as the first id, and 1,000 as the second.
fn own_number(body: &str) -> String {
    let query: serde_json::Value = serde_json::from_str(body).expect("JSON");
    let id = query["query"][0].as_f64().expect("a number") as u64;
    format!(r#"{{"result":{{"points":[{{"id":{id},"score":1}},{{"id":1000,"score":0.5}}]}}}}"#)
}

#[test]
fn a_closed_loop_asks_everything_and_knows_what_was_found() {
    let server = FakeServer::start(Box::new(|_, _, body| (200, own_number(body))));
    let outcome = run(&server.target(), &requests(&server, 20), &LOAD);
    assert_eq!(
        (outcome.answered, outcome.error_count(), outcome.latencies.count()),
        (40, 0, 40)
    );
    // The first is found always, the second for even queries only.
    let truth: Vec<Vec<u64>> = (0..20)
        .map(|n| vec![n, if n % 2 == 0 { 1000 } else { 999 }])
        .collect();
    assert_eq!(outcome.recall(&truth), 0.75);
    assert_eq!(outcome.found[7], Some(vec![7, 1000]));
}

#[test]
fn refusals_are_counted_and_not_answers() {
    let server = FakeServer::start(Box::new(|number, _, body| match number % 4 {
        0 => (503, r#"{"status":{"error":"busy"}}"#.into()),
        _ => (200, own_number(body)),
    }));
    let outcome = run(&server.target(), &requests(&server, 20), &LOAD);
    assert_eq!(
        (outcome.answered, outcome.errors.get("503: busy")),
        (30, Some(&10))
    );
    let nobody = FakeServer::start(Box::new(|_, _, _| (200, String::new())));
    let target = nobody.target();
    let asked = requests(&nobody, 20);
    drop(nobody);
    // The port may take one more connection before it closes; then all threads give up.
    let outcome = run(&target, &asked, &LOAD);
    assert!(outcome.answered < 40 && outcome.error_count() > 0);
}

/// One connection, a request every 10 ms, and a server that sleeps over the first: those that were due meanwhile have waited.
#[test]
fn an_open_loop_counts_from_when_a_request_was_due() {
    const STALL: Duration = Duration::from_millis(300);
    let server = FakeServer::start(Box::new(|number, _, body| {
        if number == 0 {
            std::thread::sleep(STALL);
        }
        (200, own_number(body))
    }));
    let load = Load {
        connections: 1,
        rate: Some(100.0),
        requests_min: 60,
        ..LOAD
    };
    let outcome = run(&server.target(), &requests(&server, 60), &load);
    assert_eq!(outcome.answered, 60);
    // 20 were due in the first 200 ms and could not be answered before 300 ms: a third of all waited 100 ms or more.
    assert!(outcome.latencies.percentile(0.70) >= 100_000_000);
    assert!(outcome.latencies.max() >= 300_000_000 && outcome.behind_s >= 0.28);
}

/// A rate that one connection can't send: what stayed behind at the end is told, and isn't among what was answered.
#[test]
fn what_an_open_loop_could_not_send_is_told() {
    const ANSWER: Duration = Duration::from_millis(20);
    let server = FakeServer::start(Box::new(|_, _, body| {
        std::thread::sleep(ANSWER);
        (200, own_number(body))
    }));
    let span = Duration::from_millis(400);
    let load = Load {
        connections: 1,
        rate: Some(1_000.0),
        span,
        requests_min: 0,
        span_max: span,
        ..LOAD
    };
    let outcome = run(&server.target(), &requests(&server, 60), &load);
    assert!((1..=20).contains(&outcome.answered), "{}", outcome.answered);
    assert_eq!(outcome.answered + outcome.unsent, 400);
    let slower = Load {
        rate: Some(10.0),
        ..load
    };
    let outcome = run(&server.target(), &requests(&server, 60), &slower);
    assert_eq!((outcome.answered, outcome.unsent), (4, 0));
}

/// Every point arrives once, whatever is refused in between.
#[test]
fn filling_waits_and_sends_less_at_once() {
    let server = FakeServer::start(Box::new(|number, path, body| {
        assert!(path.starts_with("/collections/c/points"));
        let points = body.matches("\"id\":").count();
        match number {
            _ if points > 100 => (413, "{}".into()),
            5 => (429, "{}".into()),
            _ => (200, "{}".into()),
        }
    }));
    let mut rows = NumberedRows::new(1_234);
    let filled = fill(&server.target(), "c", &mut rows, 1_234, &mut |_| {}).expect("filled");
    assert_eq!(filled.points, 1_234);
    let mut seen = vec![0; 1_234];
    for body in server.bodies.lock().expect("not poisoned").iter() {
        let body: serde_json::Value = serde_json::from_str(body).expect("JSON");
        let points = body["points"].as_array().expect("points");
        for point in points.iter().filter(|_| points.len() <= 100) {
            let id = point["id"].as_u64().expect("an id");
            assert_eq!(point["vector"][0].as_f64(), Some(id as f64));
            seen[id as usize] += 1;
        }
    }
    // The batch that got 429 came twice.
    assert!(seen.iter().all(|count| (1..=2).contains(count)), "{seen:?}");
    let broken = FakeServer::start(Box::new(|_, _, _| {
        (400, r#"{"status":{"error":"no such vector"}}"#.into())
    }));
    let error =
        fill(&broken.target(), "c", &mut NumberedRows::new(10), 10, &mut |_| {}).expect_err("refused");
    assert!(format!("{error:#}").contains("no such vector"));
}
