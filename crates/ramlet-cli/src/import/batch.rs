//! A batch of points as the text of a request that can be cut anywhere between two points.

use super::source::At;

/// Points as JSON, `{..},{..},`, where each ends, and where it stands in its file.
#[derive(Default)]
pub struct Batch {
    /// Number of the first point, counted over the whole file.
    pub start: u64,
    text: Vec<u8>,
    ends: Vec<usize>,
    places: Vec<At>,
}

impl Batch {
    pub fn new(start: u64) -> Batch {
        Batch {
            start,
            ..Batch::default()
        }
    }
    pub fn len(&self) -> usize {
        self.ends.len()
    }
    pub fn bytes(&self) -> usize {
        self.text.len()
    }

    /// Lets `write` append one point; what it returns says whether it did.
    pub fn push<E>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Result<bool, E>) -> Result<bool, E> {
        if !write(&mut self.text)? {
            return Ok(false);
        }
        self.text.push(b',');
        self.ends.push(self.text.len());
        Ok(true)
    }

    /// Notes where the point pushed last stands.
    pub fn note_place(&mut self, place: At) {
        self.places.push(place);
    }

    pub fn place(&self, at: usize) -> Option<&At> {
        self.places.get(at)
    }

    /// Replaces `body` with the request for points `from..to`.
    pub fn body(&self, from: usize, to: usize, body: &mut Vec<u8>) {
        let start = if from == 0 { 0 } else { self.ends[from - 1] };
        body.clear();
        body.extend_from_slice(b"{\"points\":[");
        // Without the last point's comma.
        body.extend_from_slice(&self.text[start..self.ends[to - 1] - 1]);
        body.extend_from_slice(b"]}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_anywhere() {
        let mut batch = Batch::new(0);
        for id in 0..3 {
            let write = |out: &mut Vec<u8>| -> Result<bool, ()> {
                out.extend_from_slice(format!("{{\"id\":{id}}}").as_bytes());
                Ok(true)
            };
            assert_eq!(batch.push(write), Ok(true));
        }
        assert_eq!(batch.push(|_| Ok::<_, ()>(false)), Ok(false));
        assert_eq!(batch.len(), 3);
        let check = |from, to, expected: &str| {
            let mut body = Vec::new();
            batch.body(from, to, &mut body);
            assert_eq!(String::from_utf8(body).unwrap(), expected);
        };
        check(0, 3, r#"{"points":[{"id":0},{"id":1},{"id":2}]}"#);
        check(1, 3, r#"{"points":[{"id":1},{"id":2}]}"#);
        check(0, 1, r#"{"points":[{"id":0}]}"#);
    }
}
