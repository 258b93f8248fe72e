//! Where in its text a value of a JSON document is, for messages about the document.

/// Line and column, from 1, of the value at a JSON Pointer (RFC 6901); of the deepest value on the
/// way to it that exists, if there is no such value. The text is a valid document.
pub fn place(text: &[u8], pointer: &str) -> (u64, u64) {
    let tokens = pointer.split('/').skip(1);
    let tokens: Vec<String> = tokens
        .map(|token| token.replace("~1", "/").replace("~0", "~"))
        .collect();
    let mut scanner = Scanner { text, at: 0 };
    let offset = scanner.find(&tokens);
    let before = text.get(..offset).unwrap_or_default();
    let lines = before.iter().filter(|byte| **byte == b'\n').count();
    let column = before
        .iter()
        .rev()
        .take_while(|byte| **byte != b'\n')
        .count();
    let number = |n: usize| u64::try_from(n).unwrap_or(u64::MAX).saturating_add(1);
    (number(lines), number(column))
}

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

impl Scanner<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// The next byte that is not white space.
    fn token(&mut self) -> Option<u8> {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
        self.peek()
    }

    fn find(&mut self, tokens: &[String]) -> usize {
        let mut start = self.at;
        for token in tokens {
            let opened = self.token();
            start = self.at;
            let found = match opened {
                Some(b'{') => self.enter_member(token),
                Some(b'[') => self.enter_element(token),
                _ => false,
            };
            if !found {
                return start;
            }
        }
        self.token();
        start.max(self.at)
    }

    /// Moves to the value of a member of the object that begins here.
    fn enter_member(&mut self, name: &str) -> bool {
        self.at += 1;
        while self.token() == Some(b'"') {
            let from = self.at;
            self.skip_string();
            let key = self.text.get(from..self.at).unwrap_or_default();
            let is_wanted = serde_json::from_slice::<String>(key).is_ok_and(|key| key == name);
            self.token();
            // The colon.
            self.at += 1;
            self.token();
            if is_wanted {
                return true;
            }
            self.skip_value();
            if self.token() == Some(b',') {
                self.at += 1;
            }
        }
        false
    }

    /// Moves to an element of the array that begins here.
    fn enter_element(&mut self, index: &str) -> bool {
        let Ok(index) = index.parse::<usize>() else {
            return false;
        };
        self.at += 1;
        for _ in 0..index {
            self.skip_value();
            if self.token() != Some(b',') {
                return false;
            }
            self.at += 1;
        }
        self.token().is_some_and(|byte| byte != b']')
    }

    fn skip_string(&mut self) {
        self.at += 1;
        while let Some(byte) = self.peek() {
            self.at += 1;
            match byte {
                b'\\' => self.at += 1,
                b'"' => return,
                _ => {}
            }
        }
    }

    fn skip_value(&mut self) {
        let mut depth = 0_usize;
        while let Some(byte) = self.token() {
            match byte {
                b'"' => {
                    self.skip_string();
                    if depth == 0 {
                        return;
                    }
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' if depth == 0 => return,
                b'}' | b']' => {
                    depth -= 1;
                    if depth == 0 {
                        self.at += 1;
                        return;
                    }
                }
                b',' if depth == 0 => return,
                _ => {}
            }
            self.at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    const DOCUMENT: &str =
        "{\n  \"a\": [1, {\"b\": \"x, ]\"}, 3],\n  \"c/d\": null, \"e\\n\": {}\n}";

    #[rstest]
    #[case("", (1, 1))]
    #[case("/a", (2, 8))]
    #[case("/a/0", (2, 9))]
    #[case("/a/1", (2, 12))]
    #[case("/a/1/b", (2, 18))]
    #[case("/a/2", (2, 27))]
    #[case("/c~1d", (3, 10))]
    #[case("/e\n", (3, 23))]
    #[case::missing_member("/a/1/z", (2, 12))]
    #[case::missing_element("/a/7", (2, 8))]
    #[case::below_a_scalar("/a/0/x", (2, 9))]
    fn the_place_of_a_value_is_found(#[case] pointer: &str, #[case] expected: (u64, u64)) {
        assert_eq!(place(DOCUMENT.as_bytes(), pointer), expected);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_fail(text in ".{0,60}", pointer in "(/[a-z0-9]{0,2}){0,4}") {
            place(text.as_bytes(), &pointer);
        }
    }
}
