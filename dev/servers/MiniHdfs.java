import java.net.InetAddress;
import java.net.ServerSocket;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.apache.hadoop.hdfs.server.namenode.NameNode;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;

/**
 * HDFS with one name node and one data node; the settings are in configuration files. The argument is a port of this
 * machine on which it listens when clients can write.
 */
public class MiniHdfs {
  public static void main(String[] args) throws Exception {
    // the name node is created twice: the first one formats its folder
    DefaultMetricsSystem.setMiniClusterMode(true);
    try {
      Configuration conf = new HdfsConfiguration();
      NameNode.format(conf);
      NameNode node = NameNode.createNameNode(new String[0], conf);
      DataNode.createDataNode(new String[0], conf);
      while (node.getNamesystem().getNumLiveDataNodes() == 0) {
        Thread.sleep(20L);
      }
      new ServerSocket(Integer.parseInt(args[0]), 1, InetAddress.getByName("127.0.0.1"));
    } catch (Exception error) {
      error.printStackTrace();
      System.exit(1); // running threads keep the process alive
    }
  }
}
