import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.io.nativeio.NativeIO;

/**
 * Hadoop's local file system, which sets permissions itself. Without its native library, Hadoop starts a process
 * `chmod` for each file that it creates, and another for the file's checksum: ten for each commit to an Iceberg table.
 */
public class LocalFiles extends LocalFileSystem {
  public LocalFiles() {
    super(new Raw());
  }

  /** Use this class for the URIs file:/// of this JVM, unless the configuration names another one. */
  public void use(Configuration configuration) throws IOException {
    String setting = "fs.file.impl";
    if (NativeIO.isAvailable() || configuration.get(setting) != null) {
      return;
    }
    URI local = URI.create("file:///");
    Configuration changed = new Configuration(configuration);
    changed.setClassLoader(LocalFiles.class.getClassLoader());
    changed.setClass(setting, LocalFiles.class, FileSystem.class);
    // closed, it leaves Hadoop's cache, in which `get` then keeps the new one
    FileSystem.get(local, configuration).close();
    FileSystem.get(local, changed);
  }

  /** The file system without checksums. */
  public static class Raw extends RawLocalFileSystem {
    public void setPermission(Path path, FsPermission permission) throws IOException {
      if (permission.getStickyBit()) {
        super.setPermission(path, permission);
        return;
      }
      Files.setPosixFilePermissions(
          pathToFile(path).toPath(), PosixFilePermissions.fromString(permission.toString()));
    }
  }
}
