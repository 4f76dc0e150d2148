//! SQLite as the system has it: loaded when it is measured, so that nobody has to compile or install it otherwise.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem;
use std::path::Path;
use std::ptr;

use crate::storage::{IoError, IoErrorKind, Result};

/// Its name on every Linux since 2004; the number stands for the interface.
const LIBRARY: &CStr = c"libsqlite3.so.0";
const ROW: c_int = 100;
const DONE: c_int = 101;

#[repr(C)]
struct Db {
    _opaque: [u8; 0],
}
#[repr(C)]
struct Stmt {
    _opaque: [u8; 0],
}

type Libversion = extern "C" fn() -> *const c_char;
type Open = unsafe extern "C" fn(*const c_char, *mut *mut Db) -> c_int;
type Close = unsafe extern "C" fn(*mut Db) -> c_int;
type Exec =
    unsafe extern "C" fn(*mut Db, *const c_char, *const c_void, *mut c_void, *mut *mut c_char) -> c_int;
type Errmsg = unsafe extern "C" fn(*mut Db) -> *const c_char;
type Prepare =
    unsafe extern "C" fn(*mut Db, *const c_char, c_int, *mut *mut Stmt, *mut *const c_char) -> c_int;
type BindBlob = unsafe extern "C" fn(*mut Stmt, c_int, *const c_void, c_int, *const c_void) -> c_int;
type OfStmt = unsafe extern "C" fn(*mut Stmt) -> c_int;

/// What is used of <https://sqlite.org/c3ref/intro.html>.
#[derive(Clone, Copy)]
struct Functions {
    libversion: Libversion,
    open: Open,
    close: Close,
    exec: Exec,
    errmsg: Errmsg,
    prepare: Prepare,
    bind_blob: BindBlob,
    step: OfStmt,
    reset: OfStmt,
    finalize: OfStmt,
}

/// The library. It stays loaded until the process ends.
#[derive(Clone, Copy)]
pub struct Sqlite(Functions);

/// The address of a function of the library, as a function pointer of the type that is wanted.
macro_rules! function {
    ($library:expr, $name:expr, $type:ty) => {{
        // SAFETY: the library is loaded, the name is a C string.
        let address = unsafe { libc::dlsym($library, $name.as_ptr()) };
        if address.is_null() {
            let detail = format!("it has no {}", $name.to_string_lossy());
            return Err(IoError::new(
                "load",
                &LIBRARY.to_string_lossy(),
                IoErrorKind::Unsupported,
                detail,
            ));
        }
        // SAFETY: the function of that name has this type, by SQLite's documented and stable interface.
        unsafe { mem::transmute::<*mut c_void, $type>(address) }
    }};
}

impl Sqlite {
    /// Fails with [`IoErrorKind::NotFound`] where it isn't installed.
    pub fn load() -> Result<Sqlite> {
        // SAFETY: loading runs the library's own initialisation, of which it has none.
        let library = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            let name = LIBRARY.to_string_lossy();
            return Err(IoError::new(
                "load",
                &name,
                IoErrorKind::NotFound,
                "it isn't installed",
            ));
        }
        Ok(Sqlite(Functions {
            libversion: function!(library, c"sqlite3_libversion", Libversion),
            open: function!(library, c"sqlite3_open", Open),
            close: function!(library, c"sqlite3_close", Close),
            exec: function!(library, c"sqlite3_exec", Exec),
            errmsg: function!(library, c"sqlite3_errmsg", Errmsg),
            prepare: function!(library, c"sqlite3_prepare_v2", Prepare),
            bind_blob: function!(library, c"sqlite3_bind_blob", BindBlob),
            step: function!(library, c"sqlite3_step", OfStmt),
            reset: function!(library, c"sqlite3_reset", OfStmt),
            finalize: function!(library, c"sqlite3_finalize", OfStmt),
        }))
    }

    pub fn version(&self) -> String {
        // SAFETY: it gives a constant C string.
        let text = unsafe { CStr::from_ptr((self.0.libversion)()) };
        text.to_string_lossy().into_owned()
    }

    /// Opens a database, created when it is missing.
    pub fn open(&self, path: &Path) -> Result<Connection> {
        let mut connection = Connection {
            functions: self.0,
            db: ptr::null_mut(),
            name: path.display().to_string(),
        };
        let path = connection.text(&connection.name)?;
        // SAFETY: a C string, and a place for the handle, which is given even when it fails, to be closed.
        let code = unsafe { (self.0.open)(path.as_ptr(), &raw mut connection.db) };
        connection.check("open", code == 0)?;
        Ok(connection)
    }
}

/// An open database, closed on drop.
pub struct Connection {
    functions: Functions,
    db: *mut Db,
    name: String,
}

impl Connection {
    /// Runs statements whose rows nobody wants.
    pub fn run(&self, sql: &str) -> Result<()> {
        let sql = self.text(sql)?;
        // SAFETY: an open database and a C string; no call back, no place for a message.
        let code = unsafe {
            (self.functions.exec)(
                self.db,
                sql.as_ptr(),
                ptr::null(),
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        self.check("run", code == 0)
    }

    /// Prepares a statement with one blob to fill in.
    pub fn insert(&self, sql: &str) -> Result<Insert<'_>> {
        let text = self.text(sql)?;
        let mut insert = Insert {
            connection: self,
            stmt: ptr::null_mut(),
        };
        // SAFETY: an open database, a C string that ends by itself, and a place for the statement.
        let code = unsafe {
            (self.functions.prepare)(self.db, text.as_ptr(), -1, &raw mut insert.stmt, ptr::null_mut())
        };
        self.check("prepare", code == 0 && !insert.stmt.is_null())?;
        Ok(insert)
    }

    fn text(&self, text: &str) -> Result<CString> {
        CString::new(text).map_err(|_| {
            IoError::new(
                "SQLite",
                &self.name,
                IoErrorKind::Other,
                "a text holds a zero byte",
            )
        })
    }

    fn check(&self, op: &'static str, worked: bool) -> Result<()> {
        if worked {
            return Ok(());
        }
        // SAFETY: a database that was opened or failed to (null is allowed); the text lives until the next call.
        let message = unsafe { CStr::from_ptr((self.functions.errmsg)(self.db)) };
        Err(IoError::new(
            op,
            &self.name,
            IoErrorKind::Other,
            message.to_string_lossy(),
        ))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: closed once; no statement is left, they borrow the connection. Null is allowed.
        unsafe { (self.functions.close)(self.db) };
    }
}

/// A prepared statement with one blob to fill in.
pub struct Insert<'a> {
    connection: &'a Connection,
    stmt: *mut Stmt,
}

impl Insert<'_> {
    /// Runs it with `blob`.
    pub fn run(&mut self, blob: &[u8]) -> Result<()> {
        let functions = &self.connection.functions;
        // SAFETY: the statement is prepared and at rest; null for the destructor says that the blob stays where it is until
        // it is bound anew, which is only read by `step` below, within the borrow.
        let bound = unsafe {
            (functions.bind_blob)(
                self.stmt,
                1,
                blob.as_ptr().cast(),
                blob.len() as c_int,
                ptr::null(),
            )
        };
        // SAFETY: the statement is prepared.
        let stepped = unsafe { (functions.step)(self.stmt) };
        // SAFETY: the statement is prepared. Its result repeats that of the step.
        unsafe { (functions.reset)(self.stmt) };
        self.connection
            .check("insert", bound == 0 && matches!(stepped, ROW | DONE))
    }
}

impl Drop for Insert<'_> {
    fn drop(&mut self) {
        // SAFETY: finalized once. Null is allowed.
        unsafe { (self.connection.functions.finalize)(self.stmt) };
    }
}
