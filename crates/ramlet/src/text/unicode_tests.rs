//! The rules of the default tokenizer, and which queries find which texts.

use serde_json::{Value, json};

use super::*;
use crate::text::{TextOptions, Token, Tokenizer};

fn tokenizer(more: Value) -> Tokenizer {
    let mut options = json!({"tokenizer": "unicode", "language": "none"});
    let more = more.as_object().cloned().unwrap_or_default();
    options.as_object_mut().expect("an object").extend(more);
    let options: TextOptions = serde_json::from_value(options).expect("options");
    Tokenizer::new(&options).expect("a tokenizer")
}

fn stored(tokenizer: &Tokenizer, text: &str) -> Vec<(String, String, u32)> {
    let mut all = Vec::new();
    tokenizer.tokens(text, &mut |Token {
                                     text, word, position, ..
                                 }| {
        all.push((text.to_owned(), word.to_owned(), position));
    });
    all
}

fn asked(tokenizer: &Tokenizer, text: &str) -> Vec<String> {
    let mut all = Vec::new();
    tokenizer.query(text, &mut |token| all.push(token.to_owned()));
    all
}

/// Whether a text has all that is asked for, as `match.text` has it.
fn finds(tokenizer: &Tokenizer, query: &str, text: &str) -> bool {
    let has: Vec<String> = stored(tokenizer, text)
        .into_iter()
        .map(|(token, ..)| token)
        .collect();
    let wanted = asked(tokenizer, query);
    !wanted.is_empty() && wanted.iter().all(|token| has.contains(token))
}

#[test]
fn each_rule() {
    let plain = tokenizer(json!({}));
    for (text, main, further) in [
        (
            "The quick-brown Fox, jumps!",
            "the quick brown fox jumps",
            "quickbrown",
        ),
        (
            "wi-fi e-mail COVID-19",
            "wifi email covid19",
            "wi fi e mail covid 19",
        ),
        ("state-of-the-art 2024-01-15", "state of the art 2024 01 15", ""),
        (
            "don't O'Brien’s John's it's",
            "dont obrien john it",
            "don t o brien s s s",
        ),
        ("l'homme qu'il d'Artagnan l's", "l homme qu il d artagnan l", "s"),
        ("the U.S.A. e.g. a", "the usa eg a", "u s a e g"),
        ("C++ C# A+, c++11", "c++ c# a+ c++ 11", "c c a c"),
        ("a+b issue#no", "a b issue no", ""),
        (
            "use .NET or ASP.NET (.env)",
            "use .net or asp net .env",
            "net .net env",
        ),
        ("end...and", "end and", ""),
        ("R&D AT&T Johnson&Sons", "r&d at&t johnson sons", "r d at t"),
        (
            "1,000,000 1'000 1_000",
            "1000000 1000 1000",
            "1 000 000 1 000 1 000",
        ),
        (
            "1,234.56 1.234.567,89",
            "1234.56 1234567.89",
            "1 234 56 1 234 567 89",
        ),
        (
            "3.14 3,14 192.168.0.1",
            "3.14 3.14 192.168.0.1",
            "3 14 3 14 192 168 0 1",
        ),
        ("1,2,3 10:30 50% €5", "1 2 3 10 30 50 5", ""),
        (
            "https://www.example.com/a-path?q=x",
            "https www example com apath q x",
            ".example .com a path",
        ),
        ("jane.doe@example.com", "jane doe example com", ".doe .com"),
        ("I ❤️ 🍕👍🏽!", "i ❤ 🍕 👍", ""),
        ("🇩🇪🇫🇷 👨‍👩‍👧 1️⃣", "🇩🇪 🇫🇷 👨‍👩‍👧 1", ""),
        ("so\u{ad}ft zero\u{200b}width", "soft zerowidth", ""),
        ("١٢٣ ２０", "123 20", ""),
        ("snake_case kebab", "snake case kebab", ""),
        (
            "v1.2.3, v2.0 v3 av1.2 1.2.3.v4",
            "1.2.3 2.0 v3 av1 2 1.2.3 v4",
            "v1 2 3 v2 0 1 2 3 .v4",
        ),
        ("צה״ל \"of\" col·lecció", "צהל of colleccio", "צה ל col leccio"),
    ] {
        let asked = asked(&plain, text);
        assert_eq!(asked.join(" "), main, "{text}");
        let mut rest = asked.iter().peekable();
        let all = stored(&plain, text).into_iter().map(|(token, ..)| token);
        let others: Vec<String> = all
            .filter(|token| rest.next_if(|main| *main == token).is_none())
            .collect();
        assert_eq!(others.join(" "), further, "{text}");
        assert_eq!(rest.next(), None, "{text}: main tokens come in their order");
    }
}

/// Whatever finds a text by its runs of letters and digits finds it here, phrases too.
#[test]
fn each_run_has_its_place() {
    let plain = tokenizer(json!({}));
    let text =
        "wi-fi don't U.S.A. 1,000.50 R&D C++ .NET John's l'art open-source node.js 3.14 state-of-the-art x";
    let all = stored(&plain, text);
    let runs = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|run| !run.is_empty());
    for (at, run) in (0u32..).zip(runs) {
        let run = run.to_lowercase();
        assert!(
            all.iter().any(|(token, _, place)| *token == run && *place == at),
            "{run} at {at}: {all:?}"
        );
    }
    // A text has the places of a query for the whole of it.
    let mut places = Vec::new();
    plain.query_tokens(text, &mut |token| {
        places.push((token.text.to_owned(), token.position))
    });
    for (token, at) in places {
        assert!(
            all.iter()
                .any(|(known, _, place)| *known == token && *place == at),
            "{token} at {at}"
        );
    }
}

#[test]
fn all_scripts_with_default_settings() {
    let plain = tokenizer(json!({}));
    for (query, text) in [
        ("café", "cafe\u{301}"),
        ("cafe\u{301}", "café"),
        ("cafe", "Café"),
        ("日本語", "日本語の検索エンジン"),
        ("検索", "日本語の検索エンジン"),
        ("圣经", "这本圣经很旧"),
        ("한국어", "저는 한국어를 배웁니다"),
        ("한국어는", "한국어를"),
        ("책", "책을 읽다"),
        ("API", "API를 호출"),
        ("API를", "API는"),
        ("ภาษา", "ภาษาไทยเขียนไม่มีช่องว่าง"),
        ("ｈｅｌｌｏ", "Hello"),
        ("hello", "Ｈｅｌｌｏ"),
        ("fine", "a ﬁne day"),
        ("ガイド", "ｶﾞｲﾄﾞ"),
        ("Strasse", "Straße"),
        ("STRASSE", "straße"),
        ("muller", "Müller"),
        ("istanbul", "İstanbul"),
        ("isparta", "ısparta"),
        ("محمد", "مُحَمَّد"),
        ("كتاب", "كـتـاب"),
        ("שלום", "שָׁלוֹם"),
        ("σισυφος", "ΣΊΣΥΦΟΣ"),
        ("елка", "Ёлка"),
        ("हिन्दी", "यह हिन्दी है"),
        ("email", "e-mail"),
        ("e-mail", "email"),
        ("wifi", "Wi-Fi"),
        ("wi-fi", "wifi"),
        ("wi fi", "wi-fi"),
        ("opensource", "open-source"),
        ("open source", "open-source"),
        ("open-source", "open source"),
        ("C++", "in C++, of course"),
        ("c", "C++"),
        ("c#", "C#"),
        (".net", "on .NET."),
        ("net", ".NET"),
        (".net", "ASP.NET"),
        ("dont", "don't"),
        ("don’t", "don't"),
        ("john", "John's"),
        ("homme", "l'homme"),
        ("🍕", "we ate 🍕!"),
        ("👍", "👍🏿"),
        ("example.com", "https://www.example.com/x?y=1"),
        ("1000000", "1,000,000"),
        ("1,000,000", "1.000.000"),
        ("3.14", "3,14"),
        ("3", "3.14"),
        ("softhyphen", "soft\u{ad}hyphen"),
        ("zerowidth", "zero\u{200b}width"),
        ("می\u{200c}خواهم", "میخواهم"),
        ("1.2.3", "since v1.2.3"),
        ("v1.2.3", "version 1.2.3"),
        ("V2.0", "v2.0"),
        ("v1", "v1.2.3"),
        ("צה\"ל", "צה״ל"),
        ("צהל", "צה\"ל"),
        ("צ'יפס", "צ׳יפס"),
        ("hawaii", "Hawaiʻi"),
        ("dont", "don`t"),
        ("dont", "don´t"),
        ("collecció", "col·lecció"),
        ("col·lecció", "coŀlecció"),
        ("احمد", "أحمد"),
        ("کتاب", "كتاب"),
        ("हिंदी", "हिन्दी"),
    ] {
        assert!(
            finds(&plain, query, text),
            "{query} in {text}: {:?} {:?}",
            asked(&plain, query),
            stored(&plain, text)
        );
    }
    for (query, text) in [
        ("c++", "C"),
        ("c#", "c"),
        (".net", "net"),
        ("café", "caffe"),
        ("й", "и"),
        ("1.2.3", "1.2.4"),
        ("12.3", "v1.2.3"),
    ] {
        assert!(!finds(&plain, query, text), "{query} in {text}");
    }
    let with_marks = tokenizer(json!({"ascii_folding": false}));
    assert!(finds(&with_marks, "café", "CAFE\u{301}") && !finds(&with_marks, "cafe", "café"));
    let with_case = tokenizer(json!({"lowercase": false}));
    assert!(finds(&with_case, "Ａb", "Ab") && !finds(&with_case, "ab", "Ab"));
}

#[test]
fn languages_have_rules_of_their_own() {
    for (language, query, text) in [
        ("turkish", "istanbul", "İSTANBUL"),
        ("turkish", "ısparta", "ISPARTA"),
        ("turkish", "ISPARTA", "ısparta"),
        ("turkish", "Ankara", "Ankara'da"),
        ("german", "Mueller", "Müller"),
        ("german", "Müller", "MUELLER"),
        ("german", "muller", "Müller"),
        ("german", "Haus", "die Häuser"),
        ("german", "strasse", "Straßen"),
        ("arabic", "كتاب", "الكتاب"),
        ("arabic", "الكتاب", "وكتاب الكِتاب"),
        ("arabic", "قران", "القرآن"),
        ("arabic", "القرآن", "قران"),
        ("arabic", "قرآن", "القرآن"),
        ("arabic", "المكتبات", "مكتبات"),
        ("arabic", "مستشفى", "مستشفي"),
        ("arabic", "المستشفي", "مستشفى"),
        ("arabic", "اسلام", "الإسلام"),
        ("french", "homme", "l'homme"),
        ("french", "l'homme", "un homme"),
        ("english", "running dogs", "The dog runs"),
        ("russian", "ёлка", "ёлки елки"),
    ] {
        for stemmer in [json!({}), json!({"stemmer": {"type": "none"}})] {
            let bare = stemmer != json!({});
            let inflected = ["Haus", "strasse", "running dogs", "ёлка"].contains(&query);
            if bare && inflected {
                continue;
            }
            let mut options = json!({"language": language});
            options
                .as_object_mut()
                .expect("an object")
                .extend(stemmer.as_object().cloned().unwrap_or_default());
            let tokenizer = tokenizer(options);
            assert!(
                finds(&tokenizer, query, text),
                "{language} {bare}: {query} in {text}: {:?} {:?}",
                asked(&tokenizer, query),
                stored(&tokenizer, text)
            );
        }
    }
    let english = tokenizer(json!({"language": "english"}));
    assert_eq!(asked(&english, "don't you think it's the dogs"), ["think", "dog"]);
}

#[test]
fn words_are_where_they_stand() {
    let plain = tokenizer(json!({}));
    let words = |text: &str| -> Vec<String> {
        stored(&plain, text)
            .into_iter()
            .map(|(_, word, _)| word)
            .collect()
    };
    assert_eq!(words("a cafe\u{301} ﬁne"), ["a", "cafe\u{301}", "ﬁne"]);
    assert_eq!(words("Straße wi-fi"), ["Straße", "wi-fi", "wi", "fi"]);
    assert_eq!(words("今天天气 C++."), ["今天", "天气", "C++", "C"]);
    assert_eq!(words("so\u{ad}ft ｶﾞｲﾄﾞ"), ["so\u{ad}ft", "ｶﾞｲﾄﾞ"]);
}

#[test]
fn long_words_are_cut_alike_and_nothing_is_lost() {
    let plain = tokenizer(json!({}));
    for letter in ["a", "é", "e\u{301}", "今天", "한", "\u{301}", "ab-"] {
        let text = letter.repeat(20_000 / letter.len());
        let all = stored(&plain, &text);
        let asked = asked(&plain, &text);
        assert!(
            asked.iter().all(|token| token.len() <= 2 * PIECE_BYTES),
            "{letter}"
        );
        assert!(
            asked
                .iter()
                .all(|token| all.iter().any(|(known, ..)| known == token)),
            "{letter}"
        );
        if letter == "今天" {
            assert_eq!(asked.concat(), text);
        }
    }
}

#[test]
fn no_text_is_too_much() {
    let alphabet: Vec<char> =
        "aZ09éß'’-.,+#&_@ \u{301}\u{200d}\u{200b}\u{ad}\u{fe0f}🍕🏽🇩今ไे한을ﬁｶﾞİı\u{640}\u{1161}\u{11ab}x"
            .chars()
            .collect();
    let mut state = 7u64;
    let mut next = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % below
    };
    let plain = tokenizer(json!({}));
    let turkish = tokenizer(json!({"language": "turkish"}));
    for _ in 0..20_000 {
        let text: String = (0..next(14)).map(|_| alphabet[next(alphabet.len())]).collect();
        for tokenizer in [&plain, &turkish] {
            let all = stored(tokenizer, &text);
            assert!(
                all.windows(2).all(|two| two[0].2 <= two[1].2),
                "{text:?}: places ascend"
            );
            assert!(
                all.iter()
                    .all(|(token, word, _)| !token.is_empty() && text.contains(word.as_str())),
                "{text:?}"
            );
            let found = asked(tokenizer, &text);
            assert!(
                found
                    .iter()
                    .all(|token| all.iter().any(|(known, ..)| known == token)),
                "{text:?}: a text is found by itself: {found:?} {all:?}"
            );
        }
    }
}
