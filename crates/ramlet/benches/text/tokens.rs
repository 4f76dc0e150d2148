//! How fast texts are cut, by script: MB of UTF-8 and words a second of each tokenizer that is for it. Sentences of our own, words of them in changing order.

use std::time::{Duration, Instant};

use ramlet::text::{TextOptions, Tokenizer, TokenizerKind};
use ramlet_testdata::args::Args;
use serde_json::json;

use crate::Outcome;

/// Script, then its words; where a script has no spaces, its sentences.
const TEXTS: [(&str, &str); 10] = [
    (
        "english",
        "the harbour master wrote that each of the seven ships had left before the storm and none of them came back until the following spring when \
         traders were already waiting with salt copper and wool",
    ),
    (
        "english with signs",
        "the wi-fi of node.js 3.14 doesn't reach C++ users, e-mail john.smith@example.org about U.S.A. prices (1,000,000) or R&D on state-of-the-art .NET \
         sites like https://example.org/a_b/c?d=e 🍕",
    ),
    (
        "german",
        "die Größe der Brücke überraschte den Müller, denn vor der Straße standen außer zwölf Käufern auch Händler, die süße Äpfel für Öl tauschten",
    ),
    (
        "russian",
        "капитан записал, что все семь кораблей ушли до шторма и ни один из них не вернулся до следующей весны, когда купцы уже ждали с солью и медью",
    ),
    (
        "arabic",
        "كتب قبطان الميناء أن السفن السبع غادرت قبل العاصفة ولم تعد أي منها حتى الربيع التالي عندما كان التجار ينتظرون بالملح والنحاس والصوف",
    ),
    (
        "hindi",
        "बंदरगाह के अधिकारी ने लिखा कि सातों जहाज तूफान से पहले निकल गए थे और अगले वसंत तक कोई वापस नहीं आया जब व्यापारी नमक और तांबे के साथ प्रतीक्षा कर रहे थे",
    ),
    (
        "korean",
        "항구의 관리인은 일곱 척의 배가 모두 폭풍 전에 떠났으며 다음 봄까지 한 척도 돌아오지 않았다고 적었고 상인들은 이미 소금과 구리를 가지고 기다리고 있었다",
    ),
    (
        "chinese",
        "港口管理员写道七艘船都在暴风雨之前离开了 直到第二年春天没有一艘回来 那时商人们已经带着盐铜和羊毛在等待 他们在码头上谈论天气和价格",
    ),
    (
        "japanese",
        "港の管理人は七隻の船がすべて嵐の前に出発したと書いた 次の春まで一隻も戻らなかった 商人たちはすでに塩と銅を持って待っていた 彼らは天気について話していた",
    ),
    (
        "thai",
        "นายท่าเรือเขียนว่าเรือทั้งเจ็ดลำออกไปก่อนพายุ และไม่มีลำใดกลับมาจนถึงฤดูใบไม้ผลิถัดไป เมื่อพ่อค้ารออยู่แล้วพร้อมเกลือและทองแดง พวกเขาพูดคุยเรื่องอากาศ",
    ),
];

const KINDS: [(&str, TokenizerKind); 3] = [
    ("default", TokenizerKind::Unicode),
    ("word", TokenizerKind::Word),
    ("multilingual", TokenizerKind::Multilingual),
];

/// A document of so many bytes or a little more; each has another order of words.
fn document(words: &[&str], number: usize, bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 256);
    let mut at = number;
    while text.len() < bytes {
        text.push_str(words[at % words.len()]);
        text.push(' ');
        at += 1 + at % 7;
    }
    text
}

/// One line of JSON for each script and tokenizer.
pub fn run(args: &Args) -> Outcome {
    let seconds = Duration::from_secs_f64(args.value("seconds", 1.0)?);
    for (script, text) in TEXTS {
        let words: Vec<&str> = text.split_whitespace().collect();
        let documents: Vec<String> = (0..64).map(|number| document(&words, number, 2_000)).collect();
        for (name, kind) in KINDS {
            let options = TextOptions {
                tokenizer: Some(kind),
                language: Some("none".into()),
                ..TextOptions::default()
            };
            let told = measure(&Tokenizer::new(&options)?, &documents, seconds);
            println!(
                "{}",
                json!({"script": script, "tokenizer": name, "mb_per_second": told.0, "tokens_per_second": told.1})
            );
        }
    }
    Ok(())
}

/// MB and tokens a second: the documents again and again, the first time before the clock.
fn measure(tokenizer: &Tokenizer, documents: &[String], seconds: Duration) -> (f64, u64) {
    let mut tokens = 0u64;
    let mut pass = || {
        for document in documents {
            tokenizer.document(document, &mut |_| tokens += 1);
        }
    };
    pass();
    let (started, mut passes) = (Instant::now(), 0u64);
    while passes == 0 || started.elapsed() < seconds {
        pass();
        passes += 1;
    }
    let took = started.elapsed().as_secs_f64();
    let bytes = documents.iter().map(String::len).sum::<usize>() as f64 * passes as f64;
    let rounded = (bytes / took / 1e5).round() / 10.0;
    (
        rounded,
        (tokens as f64 * passes as f64 / (passes + 1) as f64 / took) as u64,
    )
}
